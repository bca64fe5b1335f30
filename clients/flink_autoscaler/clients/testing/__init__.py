"""The tests that every metric source has to pass."""
