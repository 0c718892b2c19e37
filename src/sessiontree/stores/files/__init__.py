"""Sessions as JSONL files that other programs may write too."""
