"""Find, view and import sessions of other agents. Their files are only read."""
