"""Metrics of Flink jobs from a server with the HTTP API of Prometheus."""
