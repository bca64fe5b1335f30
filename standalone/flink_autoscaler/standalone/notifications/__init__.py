"""Telling people and services about events: rules, what waits, and who is told."""
