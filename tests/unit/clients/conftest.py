"""Shared by the tests of the clients."""

from collections.abc import Iterator

import pytest
from fake_flink import FakeFlink


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as cluster:
        yield cluster
