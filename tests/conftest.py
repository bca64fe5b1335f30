"""Fixtures that every part of the tests may use."""

import signal

import pytest

pytest_plugins = ["databases.fixtures", "flink_cluster.fixtures", "parallel_run"]


def pytest_configure(config: pytest.Config) -> None:
    """Let processes that tests start hear Ctrl-C: who is started in the background of a script ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
