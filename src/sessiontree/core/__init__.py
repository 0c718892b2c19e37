"""Compute trees, contexts, trimmed lines, usage and compactions. Pure: no I/O, no clock."""
