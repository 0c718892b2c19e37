"""The command line. Importing this package imports none of its commands."""
