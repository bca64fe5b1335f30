"""The policy ``capacity``."""
