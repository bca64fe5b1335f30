from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_flink import FakeFlink
from realizer_setup import Clients, Clock, Cluster

from flink_autoscaler.realizers import RescaleApiRealizer


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
