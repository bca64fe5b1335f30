"""Passes in the process of the daemon."""
