"""Pytest fixtures for tests of a daemon and its parts.

Make them known with ``from testkit.scenarios.runner.fixtures import *`` in a ``conftest.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.builders.commands import restored_logging
from testkit.builders.orders import ordered
from testkit.fakes.flink.fetching import MakeFetcher, flink_fetchers
from testkit.fakes.receiver import Receiver
from testkit.scenarios.runner import LogLines, Watching
from testkit.scenarios.runner.process import DaemonProcess

__all__ = ["daemon", "lines", "make_fetcher", "ordered", "receiver", "unchanged_logging", "watching"]


@pytest.fixture(autouse=True)
def unchanged_logging() -> Iterator[None]:
    """Undo what commands do to the logging of this process."""
    with restored_logging():
        yield


@pytest.fixture
def lines() -> Iterator[LogLines]:
    """Collect what is logged."""
    with LogLines() as lines:
        yield lines


@pytest.fixture
def watching(lines: LogLines) -> Iterator[Watching]:
    """Give what builds the parts that manage fake clusters."""
    with Watching() as watching:
        yield watching


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    """Give a daemon that is to be configured and started."""
    with DaemonProcess(tmp_path) as daemon:
        yield daemon


@pytest.fixture
def make_fetcher() -> Iterator[MakeFetcher]:
    """Give what makes fetchers of fake clusters."""
    with flink_fetchers() as make:
        yield make


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Give a server that is notified, which no proxy stands before."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Receiver() as receiver:
        yield receiver
