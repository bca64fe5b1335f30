"""One wrong answer of a cluster rescales nothing, through the daemon's own parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from testkit.builders.cluster_passes import INITIAL, SteppedPasses
from testkit.fakes.flink import FakeFlink, FakeJob

FULL = 7
"""Passes after which the metric window of a minute is full."""

OPTIONS = {
    "job.autoscaler.metrics.window": "1 min",
    "job.autoscaler.scale-down.interval": "0 s",
    "job.autoscaler.scale-down.economics.enabled": "false",
    "job.autoscaler.utilization.max": "0.9",
    "job.autoscaler.vertex.max-parallelism": "50",
}
RATE_IN = "numRecordsInPerSecond"


@pytest.fixture
def make(flink: FakeFlink) -> Iterator[Callable[..., SteppedPasses]]:
    """Give what begins passes over one job of which nothing is to be changed."""
    with ExitStack() as parts:

        def begin(options: Mapping[str, str] | None = None, step: int = 10) -> SteppedPasses:
            passes = SteppedPasses(flink, {**OPTIONS, **(options or {})}, parts, step=step)
            passes.add()
            return passes

        yield begin


def read(value: int | None) -> Callable[[FakeJob], None]:
    """Return the lie that a vertex whose answer is complete has read so many records."""

    def lie(job: FakeJob) -> None:
        job.vertices[1].counters["read-records"] = value

    return lie


def summed(name: str, value: float | str, vertex: int = 1) -> Callable[[FakeJob], None]:
    """Return the lie that a metric of all subtasks has a sum."""

    def lie(job: FakeJob) -> None:
        truth = job.vertices[vertex].metrics[name]
        assert isinstance(truth, float)
        job.vertices[vertex].metrics[name] = {"min": truth, "max": truth, "avg": truth, "sum": value}

    return lie


def busy(value: float | str) -> Callable[[FakeJob], None]:
    """Return the lie that all subtasks of a vertex are so busy."""

    def lie(job: FakeJob) -> None:
        job.vertices[1].metrics["busyTimeMsPerSecond"] = value

    return lie


def test_a_load_that_lasts_is_scaled_for(make: Callable[..., SteppedPasses]) -> None:
    bench = make()

    bench.run(FULL + 1, busy(1000.0))

    assert bench.rescales
    assert "SampleDoubted" not in [event.reason for event in bench.told.events]


LIES = [
    pytest.param(read(None), id="a counter is null"),
    pytest.param(read(4 * INITIAL), id="a counter is too high"),
    pytest.param(summed(RATE_IN, 1e9), id="a rate is one that no subtask has"),
    pytest.param(summed("Source__source_0.pendingRecords", 1e12, 0), id="a lag is very high"),
    pytest.param(busy(0.0), id="no subtask is busy"),
]


@pytest.mark.parametrize("lie", LIES)
def test_one_wrong_answer_rescales_nothing(make: Callable[..., SteppedPasses], lie: Callable[[FakeJob], None]) -> None:
    bench = make()

    bench.run(FULL + 2)
    bench.run(1, lie)
    bench.run(FULL + 2)

    assert not bench.rescales


@pytest.mark.parametrize(
    ("options", "is_rescaled"),
    [
        pytest.param({"job.autoscaler.compat": "reference"}, True, id="reference"),
        pytest.param({"job.autoscaler.sample-check.enabled": "false"}, True, id="switched off"),
        pytest.param({}, False, id="improved"),
    ],
)
def test_the_second_look_is_an_improvement(
    make: Callable[..., SteppedPasses], options: Mapping[str, str], is_rescaled: bool
) -> None:
    bench = make(options)

    bench.run(FULL)
    bench.run(1, summed("Source__source_0.pendingRecords", 1e7, 0))

    assert bool(bench.rescales) is is_rescaled
