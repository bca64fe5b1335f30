"""Fixtures that every part of the tests may use."""

pytest_plugins = ["databases.fixtures", "flink_cluster.fixtures"]
