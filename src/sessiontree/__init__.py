"""Sessiontree."""
