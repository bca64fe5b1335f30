"""The tests that every realizer and every provider has to pass."""
