"""Kafka: how far a consumer group is behind."""
