"""Find, list, search and resume sessions."""
