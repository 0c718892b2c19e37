"""Find, view and import sessions of Claude Code and Codex. Their files are only read."""
