"""An engine with images, for the tests of a module."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest

from testkit.clusters.machines import missing_tools
from testkit.clusters.machines.engine import Engine, docker_engine
from testkit.clusters.machines.images import build_images, docker_data, scratch_folder
from testkit.fakes.flink import FakeFlink, FakeMetricStore, chain


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Return an engine in a network of its own, with the images that the module has in its ``NEEDED``.

    Below ``engine.shared`` are the files that containers see.
    """
    if reason := missing_tools():
        pytest.skip(reason)
    started = time.monotonic()
    build_images(request.module.NEEDED)
    print(f"images built in {time.monotonic() - started:.0f} s")
    shared = scratch_folder("shared")
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir(parents=True)
    with docker_engine(docker_data(), scratch_folder("engine"), shared, alone=True) as running:
        yield running


@pytest.fixture
def flink(engine: Engine) -> Iterator[FakeFlink]:
    """Return a cluster with a job, on the loopback of the engine; the test is in that network, too."""
    with engine.network(), FakeFlink(store=FakeMetricStore(interval=1.0)) as flink:
        job = flink.add_job("orders", chain(vertices=2, parallelism=2), obeys=True)
        for vertex in job.vertices:
            vertex.records_per_second = 100.0
        yield flink
