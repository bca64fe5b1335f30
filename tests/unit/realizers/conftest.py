from __future__ import annotations

from collections.abc import Iterator

import pytest

from flink_autoscaler.realizers import RescaleApiRealizer
from testkit.builders.realizers import Clients, Clock, Cluster
from testkit.fakes.flink import FakeFlink


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with FakeFlink() as flink:
        yield Cluster(flink)


@pytest.fixture
def clients() -> Iterator[Clients]:
    clients = Clients()
    yield clients
    clients.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def realizer(clients: Clients, clock: Clock) -> RescaleApiRealizer:
    return RescaleApiRealizer(clients, clients.loop, clock=clock)
