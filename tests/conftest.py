"""Fixtures that every part of the tests may use."""

import os
import signal
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings

pytest_plugins = [
    "testkit.servers.databases.fixtures",
    "testkit.fakes.flink.fixtures",
    "testkit.clusters.flink.fixtures",
    "testkit.clusters.spark.fixtures",
    "testkit.kinds",
    "testkit.parallel_run",
]


def pytest_configure(config: pytest.Config) -> None:
    """Let processes that tests start hear Ctrl-C: who is started in the background of a script ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # How long an example takes tells how busy the machine is.
    settings.register_profile("untimed", deadline=None)
    settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def _states(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what a daemon that a test starts learns out of the home of whoever runs the tests.

    It is where pytest looks after old folders, also those of runs that were killed.
    """
    os.environ["STATE_DIRECTORY"] = str(tmp_path_factory.mktemp("states"))


@pytest.fixture(autouse=True)
def _state_directory_of_its_own(_states: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test find what a daemon of another one has learned; nothing is made before it is needed."""
    monkeypatch.setenv("STATE_DIRECTORY", str(Path(os.environ["STATE_DIRECTORY"]) / uuid4().hex))
