"""The policy ``ds2``."""
