"""What tests of many parts use of the cluster that is none."""

from collections.abc import Iterator

import pytest

from testkit.fakes.flink import FakeFlink


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    """Return a cluster without jobs."""
    with FakeFlink() as cluster:
        yield cluster
