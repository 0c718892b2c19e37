"""Sessions of other agents: found, viewed and brought in. Never written to."""
