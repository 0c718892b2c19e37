"""The terminal program: pickers and chat. Importing this package imports none of its screens."""
