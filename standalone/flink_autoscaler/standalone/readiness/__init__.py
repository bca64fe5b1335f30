"""Readiness of a cluster and its jobs for scaling: read from outside, reported with the line to add."""
