"""Flink's REST API: requests, decoding, the metric collector."""
