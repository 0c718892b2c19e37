"""One open session: its manager, its name, its copies and moves."""
