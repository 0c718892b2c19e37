"""The session picker, the tree picker, and what they share."""
