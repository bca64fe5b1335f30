"""The tests that every store and event handler has to pass."""
