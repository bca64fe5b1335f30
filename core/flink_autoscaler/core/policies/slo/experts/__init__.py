"""Opinions on the load to come, and how far each is trusted."""
