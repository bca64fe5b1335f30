"""What is not known never lowers anything, and no value whatever ends a pass with an exception."""

import dataclasses
import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.decision import PassPhase, Rescale
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, VertexId
from flink_autoscaler.core.model.reading import ClusterReading, JobReading, VertexAggregates
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy, Vertex
from flink_autoscaler.core.observe import metric_names
from flink_autoscaler.core.options.safety import Compat
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_context,
    a_reading,
    a_vertex,
    operator_answers,
    single_source,
    source_answers,
    vertex_id,
)

OPTIONS = dict(SINGLE_SOURCE_OPTIONS)


def lowered(outcome: PassOutcome) -> set[VertexId]:
    """Return the vertices that a decision gives fewer subtasks."""
    summaries = outcome.decision.summaries if isinstance(outcome.decision, Rescale) else {}
    return {vertex for vertex, summary in summaries.items() if not summary.is_scale_up}


def last_of(options: dict[str, str], *readings: JobReading) -> PassOutcome:
    """Read a job once a minute and return the last pass."""
    driver = JobDriver(a_context(options))
    for minute, reading in enumerate(readings, start=1):
        outcome = driver.run(minute * MINUTE, reading)
    return outcome


def test_a_source_that_was_never_complete_ends_the_pass() -> None:
    readings = [single_source(minute, rate=1.0, busy_ms=1.0, is_complete=False) for minute in (1, 2, 3)]

    outcome = last_of(OPTIONS, *readings)

    assert outcome.phase is PassPhase.ERROR
    assert "ingestion rate" in str(outcome.error)


rates = st.floats(min_value=0.0, max_value=1000.0)
busy = st.floats(min_value=0.0, max_value=1000.0)


@dataclasses.dataclass(frozen=True)
class Load:
    """What flows through a random job at one minute: per vertex its rate and busy time, and the source's lag."""

    rates: tuple[float, ...]
    busy_ms: tuple[float, ...]
    pending: float


def loads(size: int) -> st.SearchStrategy[Load]:
    return st.builds(
        Load,
        rates=st.tuples(*[rates] * size),
        busy_ms=st.tuples(*[busy] * size),
        pending=st.floats(min_value=0.0, max_value=1e6),
    )


@st.composite
def graphs(draw: st.DrawFn, size: int) -> tuple[Mapping[int, ShipStrategy], ...]:
    """Draw the inputs of every vertex: only vertices with lower numbers, none for the first."""
    strategies = st.sampled_from(list(ShipStrategy))
    inputs: list[Mapping[int, ShipStrategy]] = [{}]
    for number in range(2, size + 1):
        upstream = st.integers(1, number - 1)
        inputs.append(draw(st.dictionaries(upstream, strategies, max_size=2)))
    return tuple(inputs)


def loaded(
    graph: tuple[Mapping[int, ShipStrategy], ...],
    minute: int,
    load: Load,
    *,
    incomplete: set[int],
    silent: set[int],
    partitions: int = 0,
) -> JobReading:
    """Read a job under a load; some vertices are incomplete, some do not answer."""
    vertices, answers = [], {}
    for number, inputs in enumerate(graph, start=1):
        rate, busy_ms = load.rates[number - 1], load.busy_ms[number - 1]
        count = round(rate * 60 * minute)
        io = IoMetrics(count, count, busy_ms * 60 * minute, is_complete=number not in incomplete)
        own = 0 if inputs else partitions
        vertices.append(a_vertex(number, parallelism=4, inputs=inputs, io=io, partitions=own))
        of_source = source_answers(busy_ms=busy_ms, rate=rate, pending=load.pending)
        answers[vertex_id(number)] = operator_answers(busy_ms=busy_ms, rate=rate) if inputs else of_source
    return a_reading(vertices, {v: {} if int(v, 16) in silent else a for v, a in answers.items()})


SIZE = 4


@pytest.mark.parametrize("aggregator", ["MAX", "AVG"])
@settings(max_examples=100)
@given(data=st.data())
def test_vertices_with_incomplete_or_unanswered_metrics_are_never_lowered(aggregator: str, data: st.DataObject) -> None:
    graph = data.draw(graphs(SIZE))
    affected = data.draw(st.sets(st.integers(1, SIZE), min_size=1))
    silent = data.draw(st.sets(st.sampled_from(sorted(affected))))
    minutes = [data.draw(loads(SIZE)) for _ in range(3)]
    options = {**OPTIONS, "metrics.busy-time.aggregator": aggregator}

    outcome = last_of(
        options,
        *(loaded(graph, minute, minutes[minute - 1], incomplete=set(), silent=set()) for minute in (1, 2)),
        loaded(graph, 3, minutes[2], incomplete=affected - silent, silent=silent),
    )

    assert lowered(outcome).isdisjoint(vertex_id(number) for number in affected)


@settings(max_examples=50)
@given(data=st.data())
def test_vertices_below_one_that_is_unknown_all_along_are_never_lowered(data: st.DataObject) -> None:
    inputs: tuple[Mapping[int, ShipStrategy], ...] = ({}, {1: ShipStrategy.HASH}, {2: ShipStrategy.HASH})
    minutes = [data.draw(loads(3)) for _ in range(3)]

    outcome = last_of(
        OPTIONS, *(loaded(inputs, at, load, incomplete={2}, silent=set()) for at, load in enumerate(minutes, start=1))
    )

    assert lowered(outcome).isdisjoint({vertex_id(2), vertex_id(3)})


anything = st.floats() | st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan])
maybe = st.none() | anything
aggregates = st.builds(Aggregate, maybe, maybe, maybe, maybe, maybe)
counters = st.integers(-(2**70), 2**70)


@st.composite
def garbage_vertices(draw: st.DrawFn) -> list[Vertex]:
    graph = draw(graphs(3))
    return [
        a_vertex(
            number,
            parallelism=draw(st.integers(1, 2**31 - 1)),
            max_parallelism=draw(st.integers(1, 2**15)),
            inputs=inputs,
            io=IoMetrics(draw(counters), draw(counters), draw(anything), draw(st.booleans())),
            is_finished=draw(st.booleans()),
            partitions=draw(st.integers(0, 5)),
            group=draw(st.sampled_from([None, "g"])),
        )
        for number, inputs in enumerate(graph, start=1)
    ]


@st.composite
def garbage_readings(draw: st.DrawFn) -> JobReading:
    vertices = draw(garbage_vertices())
    answers: dict[VertexId, VertexAggregates] = {
        v.vertex_id: draw(st.dictionaries(st.sampled_from(list(FlinkMetric)), aggregates)) for v in vertices
    }
    return a_reading(vertices, answers, running_at_ms=draw(st.integers(-1, MINUTE)))


garbage_clusters = st.builds(
    ClusterReading,
    jobmanager=st.dictionaries(
        st.sampled_from(metric_names.JOBMANAGER_METRICS), anything.map(str) | st.sampled_from(["", "few", "8"])
    ),
    taskmanagers=st.dictionaries(st.sampled_from(metric_names.TASKMANAGER_METRICS_WITH_GC), aggregates),
    taskmanagers_without_gc=st.dictionaries(st.sampled_from(metric_names.TASKMANAGER_METRICS), aggregates),
)
garbage_options = st.fixed_dictionaries(
    {},
    optional={
        "compat": st.sampled_from(["reference", "improved"]),
        "utilization.target": st.sampled_from(["0", "0.7", "1", "NaN"]),
        "catch-up.duration": st.sampled_from(["0", "1 ms", "1 h"]),
        "metrics.busy-time.aggregator": st.sampled_from(["AVG", "MIN"]),
        "scale-down.max-factor": st.sampled_from(["0", "1", "9", "Infinity"]),
        "vertex.min-parallelism": st.sampled_from(["-5", "0", "300"]),
        "memory.tuning.enabled": st.just("true"),
        "observed-scalability.enabled": st.just("true"),
        "observed-scalability.min-observations": st.just("1"),
        "scaling.key-group.partitions.adjust.mode": st.sampled_from(["EVENLY_SPREAD", "MAXIMIZE_UTILISATION"]),
        "quota.cpu": st.just("1"),
        "history.max.count": st.sampled_from(["-1", "0", "1"]),
    },
)


@settings(max_examples=80)
@given(options=garbage_options, readings=st.lists(garbage_readings(), min_size=4, max_size=4), cluster=garbage_clusters)
def test_no_value_ends_a_pass_with_an_exception(
    options: dict[str, str], readings: list[JobReading], cluster: ClusterReading
) -> None:
    flink = {"taskmanager.memory.process.size": "2g"}
    driver = JobDriver(a_context({**OPTIONS, **options}, flink, taskmanager_cpu=1.0))

    for minute, reading in enumerate(readings, start=2):
        outcome = driver.run(minute * MINUTE, reading, cluster)

        assert outcome.error is None or isinstance(outcome.error, AutoscalerError)
        assert all(parallelism >= 1 for parallelism in outcome.target.parallelism.values())


@settings(max_examples=80)
@given(graph=graphs(SIZE), load=loads(SIZE), partitions=st.integers(0, 30), compat=st.sampled_from(list(Compat)))
def test_a_decision_stays_within_all_limits(
    graph: tuple[Mapping[int, ShipStrategy], ...], load: Load, partitions: int, compat: Compat
) -> None:
    options = {**OPTIONS, "compat": compat.value, "vertex.max-parallelism": "50", "scale-down.max-factor": "0.5"}
    steady_load = [
        loaded(graph, minute, load, incomplete=set(), silent=set(), partitions=partitions) for minute in (1, 2, 3)
    ]

    outcome = last_of(options, *steady_load)

    assert outcome.phase is PassPhase.EXECUTED
    greatest = min(50, partitions) if partitions and compat is Compat.IMPROVED else 50
    for vertex, parallelism in outcome.target.parallelism.items():
        is_source = not graph[int(vertex, 16) - 1]
        # Subtasks without a partition go at once, whatever a scale-down may take at most of the others.
        least = max(1, min(4, greatest) // 2) if is_source else 2
        assert least <= parallelism <= (max(4, greatest) if is_source else 50)
