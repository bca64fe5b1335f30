"""One wrong answer of a cluster rescales nothing, through the daemon's own parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace

import pytest

from flink_autoscaler.core.model.state import JobState
from testkit.builders.cluster_passes import INITIAL, SteppedPasses
from testkit.fakes.flink import FakeFlink, FakeJob

DAY = 86_400
FULL = 7
"""Passes after which the metric window of a minute is full."""

KEY = "main/orders"
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


COUNTERS = [
    pytest.param(read(None), id="a counter is null"),
    pytest.param(read(0), id="a counter is 0"),
    pytest.param(read(-1), id="a counter is negative"),
    pytest.param(read(2**63), id="a counter is beyond 64 bits"),
    pytest.param(read(10**400), id="a counter is beyond all doubles"),
    pytest.param(read(INITIAL), id="a counter is an old one"),
    pytest.param(read(4 * INITIAL), id="a counter is too high"),
]
SUMS = [
    pytest.param(summed(RATE_IN, 1e308), id="a rate is 1e308"),
    pytest.param(summed(RATE_IN, "Infinity"), id="a rate is infinite"),
    pytest.param(summed(RATE_IN, 1e9), id="a rate is one that no subtask has"),
    pytest.param(summed(RATE_IN, 1e7), id="a rate is very high"),
    pytest.param(summed(RATE_IN, -1.0), id="a rate is negative"),
    pytest.param(summed("Source__source_0.pendingRecords", 1e308, 0), id="a lag is 1e308"),
    pytest.param(summed("Source__source_0.pendingRecords", "Infinity", 0), id="a lag is infinite"),
    pytest.param(summed("Source__source_0.pendingRecords", 1e12, 0), id="a lag is very high"),
    pytest.param(summed("Source__source_0.pendingRecords", -1e12, 0), id="a lag is negative"),
    pytest.param(summed("Source__source_0.numRecordsIn", 1e308, 0), id="what a source has read is 1e308"),
    pytest.param(summed("Source__source_0.numRecordsIn", 5.0, 0), id="what a source has read is next to nothing"),
    pytest.param(busy(1e6), id="a subtask is busy for a thousand seconds a second"),
    pytest.param(busy(1999.0), id="a subtask is busy for two seconds a second"),
    pytest.param(busy(0.0), id="no subtask is busy"),
    pytest.param(busy("NaN"), id="busy time is unknown"),
]


@pytest.mark.parametrize("lie", [*COUNTERS, *SUMS])
def test_one_wrong_answer_rescales_nothing(make: Callable[..., SteppedPasses], lie: Callable[[FakeJob], None]) -> None:
    bench = make()

    bench.run(FULL + 2)
    bench.run(1, lie)
    bench.run(FULL + 2)

    assert not bench.rescales


@pytest.mark.parametrize("truthful", [0, 1, 2, FULL - 2, FULL - 1, FULL])
@pytest.mark.parametrize("lie", [*COUNTERS[:2], *SUMS[:1]])
def test_wherever_in_the_window_it_is(
    make: Callable[..., SteppedPasses], lie: Callable[[FakeJob], None], truthful: int
) -> None:
    bench = make()

    for _ in range(truthful):
        bench.run(1)
    bench.run(1, lie)
    bench.run(FULL + 2)

    assert not bench.rescales


def test_a_plan_that_hangs_on_one_sample_is_told_with_both_figures(make: Callable[..., SteppedPasses]) -> None:
    bench = make()

    bench.run(FULL)
    (report,) = bench.run(1, summed("Source__source_0.pendingRecords", 1e7, 0))

    [event] = [event for event in bench.told.events if event.reason == "SampleDoubted"]
    [why] = [each for each in report.reports[KEY].outcome.decision.reasons if each.code == "SAMPLE_DOUBTED"]
    assert dict(event.figures) == dict(why.figures)
    assert (dict(why.figures)["present"], dict(why.figures)["without_sample"]) == (2.0, 2.0)
    assert dict(why.figures)["planned"] > 2.0
    assert event.interval is not None


@pytest.mark.parametrize("lie", [pytest.param(read(0), id="a counter is 0"), pytest.param(busy(1e6), id="busy time")])
def test_what_lies_every_other_time_for_a_day_and_then_tells_the_truth_is_as_if_it_had_never_lied(
    make: Callable[..., SteppedPasses], lie: Callable[[FakeJob], None]
) -> None:
    step = 300
    bench, honest = make({"job.autoscaler.metrics.window": "30 min"}, step), JobState()

    for _ in range(DAY // (2 * step)):
        bench.run(1, lie)
        bench.run(1)
    *_, report = bench.run(2 * FULL)

    state, outcome = bench.state(), report.reports[KEY].outcome
    assert not bench.rescales
    assert outcome.error is None
    assert {reason.code for reason in outcome.decision.reasons} >= {"NO_CHANGE"}
    assert replace(state, samples=(), job_id=None, supervision=honest.supervision) == honest


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
