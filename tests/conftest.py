"""Fixtures that every part of the tests may use."""

pytest_plugins = ["flink_cluster.fixtures"]
