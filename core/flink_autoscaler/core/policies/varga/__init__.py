"""The policy ``varga``."""
