"""Entries, messages, headers, ids, dialects, migrations, and their JSON form. No I/O."""
