"""Decisions, pure: tree, context, trimming, usage, compaction. No I/O, no clock."""
