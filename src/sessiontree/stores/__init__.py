"""Where sessions live."""
