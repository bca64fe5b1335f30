"""Recorded passes: written, explained, replayed."""
