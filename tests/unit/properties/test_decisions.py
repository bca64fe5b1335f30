"""What holds for every decision, over random job graphs, loads and options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from flink_autoscaler.core.decide.slots import taskmanagers_of
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy, Vertex
from flink_autoscaler.core.policies.base.sizing import SizingSettings, size_vertex
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    JobDriver,
    a_cluster,
    a_context,
    a_reading,
    a_vertex,
    evaluated_vertex,
    operator_answers,
    source_answers,
)

WINDOW = 60_000
SLOTS = 2
BASE = {
    "metrics.window": "1 min",
    "stabilization.interval": "0",
    "scale-down.interval": "0",
    "scale-down.max-factor": "1",
    "restart.time": "0",
    "catch-up.duration": "0",
    "metrics.busy-time.aggregator": "AVG",
}
FLINK = {"taskmanager.numberOfTaskSlots": str(SLOTS)}


@dataclass(frozen=True)
class Job:
    """A steady job.

    Attributes:
        inputs: Upstream vertices of every vertex, by position; only earlier ones.
        parallelism: Of every vertex.
        max_parallelism: Of every vertex.
        partitions: Of every source; 0 for unknown.
        capacity: Records/s that one always busy subtask takes, of every vertex.
        rate: Records/s that arrive at the source; each record goes on along every edge.
    """

    inputs: tuple[tuple[int, ...], ...]
    parallelism: tuple[int, ...]
    max_parallelism: tuple[int, ...]
    partitions: tuple[int, ...]
    capacity: tuple[float, ...]
    rate: float

    def rates(self) -> list[float]:
        """Return the records/s that every vertex receives: all of it, or what the busiest vertex lets through."""
        wanted: list[float] = []
        for upstream in self.inputs:
            wanted.append(sum(wanted[at] for at in upstream) if upstream else self.rate)
        reachable = map(lambda one, subtasks: one * subtasks, self.capacity, self.parallelism)
        share = min(1.0, *(most / needed for most, needed in zip(reachable, wanted, strict=True)))
        return [share * needed for needed in wanted]


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    size = draw(st.integers(1, 5))
    inputs = tuple(
        tuple(sorted(draw(st.sets(st.integers(0, at - 1), min_size=1, max_size=2)))) if at else () for at in range(size)
    )
    max_parallelism = tuple(draw(st.integers(1, 160)) for _ in range(size))
    return Job(
        inputs=inputs,
        parallelism=tuple(draw(st.integers(1, min(60, most))) for most in max_parallelism),
        max_parallelism=max_parallelism,
        partitions=tuple(draw(st.sampled_from([0, 0, 1, 7, 24, 97])) for _ in range(size)),
        capacity=tuple(draw(st.floats(1.0, 1000.0)) for _ in range(size)),
        rate=draw(st.floats(1.0, 20_000.0)),
    )


options = st.fixed_dictionaries(
    {"utilization.target": st.sampled_from(["0.3", "0.5", "0.7", "1.0"])},
    optional={
        "vertex.min-parallelism": st.integers(1, 20).map(str),
        "vertex.max-parallelism": st.integers(20, 300).map(str),
        "scaling.parallelism-alignment.mode": st.sampled_from(["BALANCED", "EVENLY_SPREAD", "OFF"]),
        "scale-up.max-factor": st.sampled_from(["0.5", "2.0"]),
        "quota.cpu": st.integers(1, 60).map(str),
        "compat": st.sampled_from(["reference", "improved"]),
    },
)


def vertices_of(job: Job, seconds: float) -> list[Vertex]:
    """Return the vertices with their counters after some seconds; no vertex is busier than always."""
    vertices = []
    for at, received in enumerate(job.rates()):
        share = min(1.0, received / (job.capacity[at] * job.parallelism[at]))
        io = IoMetrics(
            int(received * seconds) if job.inputs[at] else 0,
            int(received * seconds),
            share * 1000 * job.parallelism[at] * seconds,
        )
        vertex = a_vertex(
            at + 1,
            parallelism=job.parallelism[at],
            max_parallelism=job.max_parallelism[at],
            inputs={upstream + 1: ShipStrategy.HASH for upstream in job.inputs[at]},
            partitions=0 if job.inputs[at] else job.partitions[at],
            io=io,
            group="g",
        )
        vertices.append(vertex)
    return vertices


def reading_of(job: Job, seconds: float) -> JobReading:
    vertices = vertices_of(job, seconds)
    answers = {}
    for at, (vertex, received) in enumerate(zip(vertices, job.rates(), strict=True)):
        busy = 1000 * min(1.0, received / (job.capacity[at] * job.parallelism[at]))
        if vertex.is_source:
            read = int(received * seconds)
            pending = max(0, int(job.rate * seconds) - read)
            blocked = 1000 - busy if received < job.rate else 0.0
            answers[vertex.vertex_id] = source_answers(
                busy_ms=busy, rate=received, records_in=read, pending=pending, backpressure_ms=blocked
            )
        else:
            answers[vertex.vertex_id] = operator_answers(busy_ms=busy, rate=received)
    reading = a_reading(vertices, answers)
    partitions = {v.vertex_id: v.source_partitions for v in vertices if v.source_partitions}
    return replace(reading, memory=replace(reading.memory, partitions=partitions))


def decide(job: Job, chosen: Mapping[str, str]) -> PassOutcome:
    """Take a job through a full window of its present execution."""
    context = replace(a_context({**BASE, **chosen}, FLINK), taskmanager_cpu=1.0, taskmanager_memory=1 << 30)
    driver = JobDriver(context, EMPTY_STATE)
    for at_ms in (0, WINDOW // 2, WINDOW):
        outcome = driver.run(at_ms, reading_of(job, 1 + at_ms / 1000), a_cluster())
    assert outcome.phase == "executed", outcome
    return outcome


def changes(outcome: PassOutcome) -> dict[int, tuple[int, int]]:
    """Return parallelism before and after by position."""
    if not isinstance(outcome.decision, Rescale):
        return {}
    return {int(v, 16) - 1: (s.current, s.new) for v, s in outcome.decision.summaries.items()}


@given(job=jobs(), chosen=options)
@settings(max_examples=80)
def test_no_vertex_moves_against_what_it_needs(job: Job, chosen: dict[str, str]) -> None:
    outcome = decide(job, chosen)

    assert outcome.metrics is not None
    assert outcome.restart is not None
    assert outcome.observation.topology is not None
    sizing_settings = SizingSettings.of(a_context({**BASE, **chosen}).options, outcome.restart.seconds)
    for vertex in outcome.observation.topology.vertices.values():
        sizing = size_vertex(vertex, outcome.metrics.vertices[vertex.vertex_id], sizing_settings)
        before, after = changes(outcome).get(int(vertex.vertex_id, 16) - 1, (0, 0))
        assert sizing is not None
        is_idle = vertex.idle_subtasks > 0  # those without a partition go, whatever the others need
        assert after == before or is_idle or (after > before) == (sizing.wanted > before)


@given(job=jobs(), chosen=options)
@settings(max_examples=80)
def test_no_limit_is_exceeded(job: Job, chosen: dict[str, str]) -> None:
    outcome = decide(job, chosen)

    least, most = int(chosen.get("vertex.min-parallelism", 1)), int(chosen.get("vertex.max-parallelism", 200))
    for at, (before, after) in changes(outcome).items():
        assert min(before, least) <= after <= min(job.max_parallelism[at], max(before, most))
        is_capped = not job.inputs[at] and job.partitions[at] and chosen.get("compat") != "reference"
        assert not is_capped or after <= max(before, job.partitions[at])


@given(job=jobs(), chosen=options, cpus=st.integers(1, 60))
@settings(max_examples=80)
def test_the_quota_is_not_exceeded_and_used_as_far_as_it_goes(job: Job, chosen: dict[str, str], cpus: int) -> None:
    outcome = decide(job, {**chosen, "quota.cpu": str(cpus), "compat": "improved"})

    assert outcome.observation.topology is not None
    before = {v.vertex_id: v.parallelism for v in outcome.observation.topology.vertices.values()}
    after = {**before, **outcome.state.overrides}
    needed = taskmanagers_of(outcome.observation.topology, after, SLOTS)
    assert needed <= max(cpus, taskmanagers_of(outcome.observation.topology, before, SLOTS))


@given(job=jobs(), chosen=options)
@settings(max_examples=60)
def test_equal_inputs_give_equal_decisions(job: Job, chosen: dict[str, str]) -> None:
    first, second = decide(job, chosen), decide(job, chosen)

    assert repr(first) == repr(second)


@given(job=jobs(), chosen=options)
@settings(max_examples=80)
def test_a_job_that_got_what_it_needs_is_left_alone(job: Job, chosen: dict[str, str]) -> None:
    # One step at a time and a quota would take several decisions; a target of 1 leaves no band to rest in.
    chosen = {key: value for key, value in chosen.items() if key not in ("quota.cpu", "scale-up.max-factor")}
    chosen["utilization.target"] = min(chosen["utilization.target"], "0.7")
    first = decide(job, chosen)
    decided = changes(first)
    rescaled = replace(job, parallelism=tuple(decided.get(at, (0, now))[1] for at, now in enumerate(job.parallelism)))

    second = decide(rescaled, chosen)

    # A wanted parallelism that is a whole number up to rounding may be taken for the next one.
    assert all(abs(after - before) <= 1 for before, after in changes(second).values()), (
        changes(first),
        changes(second),
    )


rates = st.floats(0.0, 1e9)


@given(
    target=rates,
    catch_up=rates,
    more=st.floats(0.0, 1e9),
    rate=st.floats(0.001, 1e9),
    current=st.integers(1, 500),
    partitions=st.integers(0, 300),
)
def test_more_load_never_wants_fewer_subtasks(
    target: float, catch_up: float, more: float, rate: float, current: int, partitions: int
) -> None:
    vertex = a_vertex(parallelism=current, max_parallelism=512, partitions=partitions)
    sizing_settings = SizingSettings.of(a_context({}).options, 300)

    less, greater, lagging = (
        size_vertex(
            vertex, evaluated_vertex(target=wanted, rate=rate, catch_up=extra, parallelism=current), sizing_settings
        )
        for wanted, extra in ((target, catch_up), (target + more, catch_up), (target, catch_up + more))
    )

    assert less is not None
    assert greater is not None
    assert lagging is not None
    assert less.target <= min(greater.target, lagging.target)
    assert math.isfinite(less.factor)
