"""Logs, gauges, health and the HTTP endpoint."""
