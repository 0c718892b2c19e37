"""The parts that servers share: the sessions they show, and the check of each request."""
