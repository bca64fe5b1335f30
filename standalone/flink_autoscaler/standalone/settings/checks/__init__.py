"""Checks across options."""
