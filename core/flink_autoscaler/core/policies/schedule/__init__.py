"""The policy ``schedule``."""
