"""Pytest fixture for tests on one embedded Spark.

Make it known with ``pytest_plugins = ["testkit.clusters.spark.fixtures"]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Protocol

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIXTURE: Final = "shared_spark"
PLANS: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.shuffle.partitions": "1"}
"""Compiling the plans of a test takes longer than interpreting them."""


class SharedSpark(Protocol):
    """Gives the session, with settings of its plans."""

    def __call__(self, conf: Mapping[str, str] = ...) -> SparkSession:
        """Return the session. What is set counts until another file asks for it."""


class _Shared:
    """An embedded session of one task slot, started on first use."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._conf: Mapping[str, str] = {}
        self._open = ExitStack()

    def __call__(self, conf: Mapping[str, str] = {}) -> SparkSession:
        session = self._session or self._start()
        for key in self._conf:
            session.conf.unset(key)
        for key, value in conf.items():
            session.conf.set(key, value)
        session.catalog.clearCache()
        self._conf = conf
        return session

    def close(self) -> None:
        """End it; the next use starts another one."""
        self._session = None
        self._open.close()

    def _start(self) -> SparkSession:
        # Imported here: who runs no test on Spark does not wait for it.
        from flink_autoscaler.pipeline.spark.settings import SparkSettings  # noqa: PLC0415
        from flink_autoscaler.pipeline.tables.files import own_session  # noqa: PLC0415

        self._session = self._open.enter_context(own_session(SparkSettings(master="local[1]", conf=PLANS)))
        return self._session


_SHARED = pytest.StashKey[_Shared]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the session where the fixture and the end of a test find it."""
    config.stash[_SHARED] = _Shared()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the session before a file that does not share it: a process has one at most."""
    if nextitem is not None and nextitem.path != item.path and FIXTURE not in getattr(nextitem, "fixturenames", ()):
        item.config.stash[_SHARED].close()


@pytest.fixture(scope="session")
def shared_spark(request: pytest.FixtureRequest) -> Iterator[SharedSpark]:
    """Give the embedded session that files share which follow each other in a worker."""
    shared = request.config.stash[_SHARED]
    yield shared
    shared.close()
