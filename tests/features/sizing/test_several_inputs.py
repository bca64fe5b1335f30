"""Vertices with several inputs in whole passes: they are sized for what they themselves receive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import pytest

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    MINUTE,
    JobDriver,
    a_context,
    a_reading,
    a_vertex,
    operator_answers,
    source_answers,
    vertex_id,
)

OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "metrics.window": "2 min",
        "stabilization.interval": "1 min",
        "scale-down.interval": "0",
        "scaling.parallelism-alignment.mode": "OFF",
        "scale-down.economics.enabled": "false",
    }
)


@dataclass(frozen=True)
class Counted:
    """A vertex under a steady load.

    Attributes:
        received: Records/s that it counts as received.
        sent: Records/s that it counts as sent.
        busy: Share of time of every subtask.
        inputs: Numbers of the vertices that feed it; empty for a source.
    """

    received: float
    sent: float
    busy: float
    inputs: tuple[int, ...] = ()
    parallelism: int = 8


Job = Mapping[int, Counted]
NO_LIES: Mapping[int, IoMetrics] = MappingProxyType({})


class Passes:
    """A pass per minute over a job, until it would be rescaled for the first time.

    Args:
        job: Under its load.
        policy: In charge.
        options: Of the job, relative to ``job.autoscaler.``.
    """

    def __init__(self, job: Job, policy: str, options: Mapping[str, str] | None = None) -> None:
        self._job = job
        self._driver = JobDriver(a_context({**OPTIONS, "policy": policy, **(options or {})}))
        self._minutes = 0
        self._loads = 0.0  # load of each minute so far, added up
        self._lag = 0.0  # minutes of the usual load

    def run(self, minutes: int, *, load: float = 1.0, lies: Mapping[int, IoMetrics] = NO_LIES) -> PassOutcome:
        """Do passes under so many times the usual load; return the last one.

        Args:
            minutes: Number of passes.
            load: Share of the usual load.
            lies: Counters that some vertices have instead of their own, by number.
        """
        able = min(1.0 / each.busy for each in self._job.values())
        for _ in range(minutes):
            self._minutes += 1
            self._loads += min(load, able)
            self._lag += max(0.0, load - able)
            outcome = self._driver.run(self._minutes * MINUTE, self._reading(min(load, able), lies))
            if isinstance(outcome.decision, Rescale):
                break
        return outcome

    def _reading(self, load: float, lies: Mapping[int, IoMetrics]) -> JobReading:
        vertices, answers, seconds = [], {}, 60 * self._loads
        for number, each in self._job.items():
            busy_ms = 1000 * each.busy * each.parallelism * seconds
            io = IoMetrics(
                records_in=round(each.received * seconds),
                records_out=round(each.sent * seconds),
                busy_ms=busy_ms,
                idle_ms=60_000 * self._minutes * each.parallelism - busy_ms,
                backpressured_ms=0.0,
            )
            inputs = dict.fromkeys(each.inputs, ShipStrategy.REBALANCE)
            io = lies.get(number, io)
            vertices.append(a_vertex(number, parallelism=each.parallelism, io=io, inputs=inputs, group="all"))
            rates = {"busy_ms": 1000 * each.busy * load, "rate": each.received * load}
            lag = 60 * self._lag * each.received
            answers[vertex_id(number)] = (
                operator_answers(**rates) if each.inputs else source_answers(**rates, pending=lag)
            )
        return a_reading(vertices, answers)


def changes(outcome: PassOutcome) -> dict[int, int]:
    """Return the new parallelism of the vertices that a pass would change, by their number."""
    summaries = outcome.decision.summaries if isinstance(outcome.decision, Rescale) else {}
    return {int(v, 16): summary.new for v, summary in summaries.items()}


def targets(outcome: PassOutcome) -> dict[int, float]:
    """Return the records/s that every vertex has to sustain, by its number."""
    assert outcome.metrics is not None
    vertices = outcome.metrics.vertices
    return {int(v, 16): metrics[ScalingMetric.TARGET_DATA_RATE].average for v, metrics in vertices.items()}


SHORT_CUT: Job = {
    1: Counted(4000, 8000, 0.6),
    2: Counted(4000, 7977, 0.6, (1,)),  # what it sends are rows, most of which no record of the sink comes from
    3: Counted(16 / 30, 0, 0.009, (1, 2)),
}
"""A source that feeds a vertex both through another one and past it."""

RARE_ALERTS: Job = {
    1: Counted(5000, 5000, 0.6),
    2: Counted(5000, 5000, 0.6),
    3: Counted(5000, 5000, 0.6, (1,)),
    4: Counted(5000, 5000, 0.6, (2,)),
    5: Counted(10_000, 0, 0.6, (3, 4)),
    6: Counted(1, 0, 0.005, (3, 4), 2),
}
"""Two sources, an aggregate each, whose results go to one sink and whose rare alerts go to another."""

BUSY_SINK: Job = {
    1: Counted(5000, 5000, 0.6),
    2: Counted(5000, 5000, 0.6),
    3: Counted(5000, 5000, 0.6, (1,)),
    4: Counted(5000, 5000, 0.6, (2,)),
    5: Counted(800, 0, 0.5, (3, 4)),
}
"""Two aggregates that count rows as sent, into a sink that is half busy."""

LAST = {"short cut": (SHORT_CUT, 3), "rare alerts": (RARE_ALERTS, 6), "busy sink": (BUSY_SINK, 5)}
"""Jobs, each with the number of the vertex that Flink counts far less, or far more, for than its senders do."""


@pytest.mark.parametrize(("job", "number"), LAST.values(), ids=LAST)
def test_a_vertex_has_to_sustain_what_it_receives(job: Job, number: int) -> None:
    outcome = Passes(job, "capacity").run(3)

    assert targets(outcome) == pytest.approx({v: each.received for v, each in job.items()}, abs=0.001)
    assert changes(outcome).get(number, 0) <= job[number].parallelism
    assert changes(outcome).keys() <= {number}


def test_a_vertex_that_is_half_busy_stays_whatever_its_senders_count() -> None:
    assert changes(Passes(BUSY_SINK, "capacity").run(30)) == {}


def test_what_waits_at_sources_reaches_a_vertex_past_what_its_senders_count() -> None:
    outcome = Passes(BUSY_SINK, "capacity").run(3, load=2.0)

    assert targets(outcome)[5] == pytest.approx(2.0 * 800, rel=0.001)
    assert changes(outcome)[5] > 8


@pytest.mark.parametrize("job", [job for job, _ in LAST.values()], ids=LAST)
def test_slo_leaves_a_job_that_keeps_pace_as_it_is(job: Job) -> None:
    assert changes(Passes(job, "slo").run(120)) == {}


@pytest.mark.parametrize(
    "options",
    [pytest.param({}, id="all"), pytest.param({"vertex.exclude.ids": vertex_id(3)}, id="without the last")],
)
def test_slo_grows_with_the_load_of_a_short_cut_but_not_at_its_end(options: Mapping[str, str]) -> None:
    passes = Passes(SHORT_CUT, "slo", options)
    assert changes(passes.run(60)) == {}

    outcome = passes.run(30, load=2.5)

    found = changes(outcome)
    assert found.pop(3, 0) <= 8
    assert found.keys() == {1, 2}
    assert all(15 < size <= 20 for size in found.values())  # 2.5 times the load of before


def test_reference_believes_the_senders() -> None:
    short_cut = Passes(SHORT_CUT, "capacity", {"compat": "reference"}).run(3)
    busy_sink = Passes(BUSY_SINK, "capacity", {"compat": "reference"}).run(3)

    assert targets(short_cut)[3] == 7977.0
    assert targets(busy_sink)[5] == 0.0


RIGHT = IoMetrics(1_500_000, 1_500_000, 1_440_000.0, idle_ms=960_000.0, backpressured_ms=0.0)
"""The counters of an aggregate of :data:`BUSY_SINK` at minute five."""


@pytest.mark.parametrize("policy", ["capacity", "slo"])
@pytest.mark.parametrize(
    "lies",
    [
        pytest.param({3: replace(RIGHT, records_out=0)}, id="a sender has sent nothing"),
        pytest.param({3: IoMetrics(), 4: IoMetrics()}, id="both senders have begun anew"),
        pytest.param({3: replace(RIGHT, records_out=-5)}, id="a sender has sent less than nothing"),
        pytest.param({3: replace(RIGHT, records_out=2**60)}, id="a sender has sent more than there can be"),
        pytest.param({3: replace(RIGHT, records_out=900_000)}, id="a sender has gone back"),
        pytest.param({3: replace(RIGHT, is_complete=False, records_out=500_000)}, id="a sender is not complete"),
        pytest.param({3: replace(RIGHT, records_in=0)}, id="a sender has received nothing"),
        pytest.param({5: IoMetrics()}, id="the receiver has begun anew"),
        pytest.param({5: replace(RIGHT, records_in=0)}, id="the receiver has received nothing"),
        pytest.param({5: replace(RIGHT, records_in=-1)}, id="the receiver has received less than nothing"),
        pytest.param({5: replace(RIGHT, records_in=2**60)}, id="the receiver has received more than there can be"),
        pytest.param({5: replace(RIGHT, is_complete=False, records_in=0)}, id="the receiver is not complete"),
    ],
)
def test_counters_that_contradict_themselves_decide_nothing(policy: str, lies: Mapping[int, IoMetrics]) -> None:
    passes = Passes(BUSY_SINK, policy)
    passes.run(4)

    while_lying = passes.run(1, lies=lies)
    afterwards = passes.run(5)

    assert changes(while_lying) == {}
    assert changes(afterwards) == {}
    assert targets(afterwards)[5] == pytest.approx(800)


@pytest.mark.parametrize("sent", [0.0, 1.0, 1e6], ids=["nothing", "next to nothing", "far too much"])
def test_senders_that_always_count_wrongly_change_nothing(sent: float) -> None:
    job = {**BUSY_SINK, 3: replace(BUSY_SINK[3], sent=sent), 4: replace(BUSY_SINK[4], sent=0.0)}

    outcome = Passes(job, "capacity").run(3)

    assert targets(outcome)[5] == pytest.approx(800)
    assert changes(outcome) == {}
