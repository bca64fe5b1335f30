"""Backtests that people ask for on the page: each in a process of its own, one at a time."""
