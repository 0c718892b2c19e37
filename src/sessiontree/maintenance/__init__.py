"""Maintain session files: check and repair damage, move to trash, remove garbage."""
