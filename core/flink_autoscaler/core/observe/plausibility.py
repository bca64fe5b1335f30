"""What Flink answers that cannot be taken as it is: impossible values, what is not measured yet, and idle subtasks.

A task is *busy* for all the time in which it is neither without input nor held up. Both are measured every five
seconds, and are zero before: a task that has just been started, and one that restores its state, say that they are
busy all the time. Rates are those of the last 60 s, divided by 60 s also where the task is younger: a source that began
10 s ago reports a sixth of its rate (``TaskIOMetricGroup``, ``TimerGauge`` and ``MeterView`` of Flink 1.18 to 2.3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from flink_autoscaler.core.errors import ResponseError
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, VertexId
from flink_autoscaler.core.model.numbers import INFINITY
from flink_autoscaler.core.model.reading import VertexAggregates
from flink_autoscaler.core.model.topology import JobDetails, JobTopology, Vertex

MOST: Final = 2.0**53 - 1
"""A double counts no further: what is read as more may have been anything. No counter, lag or size in bytes of a job
comes near it."""

MAX_MS_PER_SECOND: Final = 2000.0
"""A subtask is busy or held up for 1,000 ms of a second; clocks that are read one after the other add a little."""

_CLOCKS_APART_MS: Final = 3_600_000
"""Longest time by which a JobManager may be ahead of itself, when its clock is set or it is replaced."""

_RATES: Final = frozenset(
    {FlinkMetric.SOURCE_RECORDS_IN_RATE, FlinkMetric.SOURCE_RECORDS_OUT_RATE, FlinkMetric.RECORDS_IN_RATE}
)
_SHARES: Final = frozenset({FlinkMetric.BUSY_TIME, FlinkMetric.BACKPRESSURE_TIME})


def is_possible(value: float, most: float = MOST) -> bool:
    """Tell whether a value may be one: finite, not negative and within what there can be; NaN is none."""
    return 0 <= value <= most


def possible_aggregates(answers: VertexAggregates, max_rate: float, parallelism: int) -> VertexAggregates:
    """Return the metrics of a vertex without the values that cannot be.

    Args:
        answers: As the cluster gave them.
        max_rate: Records/s that no subtask can process.
        parallelism: Of the vertex.
    """
    found: dict[FlinkMetric, Aggregate] = {}
    for metric, aggregate in answers.items():
        # The most that one subtask may report, and all of them together.
        most = max_rate if metric in _RATES else MAX_MS_PER_SECOND if metric in _SHARES else MOST
        together = MOST if most is MOST else most * parallelism
        low, high, average, total, skew = aggregate
        if not (
            (low is None or 0 <= low <= most)
            and (high is None or 0 <= high <= most)
            and (average is None or 0 <= average <= most)
            and (total is None or 0 <= total <= together)
        ):
            low, high, average = [v if v is None or 0 <= v <= most else None for v in (low, high, average)]
            total = total if total is None or 0 <= total <= together else None
            found[metric] = Aggregate(low, high, average, total, skew)
    return {**answers, **found} if found else answers


def check_details(details: JobDetails, topology: JobTopology) -> None:
    """Refuse job details that contradict themselves.

    Raises:
        ResponseError: A vertex has another parallelism than any vertex can have, or the job began to run in the future.
    """
    for vertex in topology.vertices.values():
        if vertex.parallelism < 1 or vertex.parallelism > vertex.max_parallelism > 0:
            raise ResponseError(
                f"vertex {vertex.vertex_id}: parallelism {vertex.parallelism} and max parallelism "
                f"{vertex.max_parallelism} cannot be"
            )
    began_ms, now_ms = details.running_at_ms or 0, details.now_ms
    if began_ms < 0 or (now_ms is not None and began_ms > now_ms + _CLOCKS_APART_MS):
        raise ResponseError(
            f"job {details.job_id}: the job cannot have begun to run at {began_ms}, when it is {now_ms}"
        )


def max_rates(topology: JobTopology, max_rate: float) -> Mapping[str, float]:
    """Return the records/s that the vertices which have not finished can process at most."""
    vertices = topology.vertices.items()
    return {v: max_rate * vertex.parallelism for v, vertex in vertices if not vertex.is_finished}


SHARES_AFTER_MS: Final = 10_000
"""Age from which shares of time are measured: two intervals of Flink's, since the first one begins anywhere."""

RATES_AFTER_MS: Final = 60_000
"""Age from which rates are those of a whole minute."""

_SINCE: Final[Mapping[FlinkMetric, int]] = {
    FlinkMetric.BUSY_TIME: SHARES_AFTER_MS,
    FlinkMetric.BACKPRESSURE_TIME: SHARES_AFTER_MS,
    FlinkMetric.SOURCE_RECORDS_IN_RATE: RATES_AFTER_MS,
    FlinkMetric.SOURCE_RECORDS_OUT_RATE: RATES_AFTER_MS,
    FlinkMetric.RECORDS_IN_RATE: RATES_AFTER_MS,
}
_UNKNOWN: Final = Aggregate()


def ages_of(details: JobDetails, now_ms: int, passed_ms: int = 0) -> dict[VertexId, float]:
    """Return for how many milliseconds the tasks of each vertex had run when they were measured.

    None while one of them is not running yet.

    Clocks that contradict each other tell nothing, which counts as long enough.

    Args:
        details: Of a job that runs.
        now_ms: The instant of the pass, for a JobManager that does not tell the time.
        passed_ms: For how long what Flink answers with had been gathered by then.
    """
    now_ms = now_ms if details.now_ms is None else details.now_ms
    running_at_ms, ages = details.running_at_ms or 0, dict[VertexId, float]()
    for vertex in details.vertices:
        age_ms = now_ms - max(running_at_ms, vertex.start_ms)
        known = max(0, age_ms - passed_ms) if age_ms >= 0 else INFINITY
        ages[vertex.vertex_id] = known if vertex.is_settled else 0.0
    return ages


def mask_unmeasured(age_ms: float, answers: VertexAggregates) -> VertexAggregates:
    """Return the metrics of a vertex of an age; those that Flink cannot have measured by then are unknown."""
    return {metric: _UNKNOWN if age_ms < _SINCE.get(metric, 0) else aggregate for metric, aggregate in answers.items()}


def active_partitions(counted: int, answers: VertexAggregates, parallelism: int) -> int:
    """Count the partitions that the subtasks of a source read at the moment.

    A dynamic Kafka source stops to read partitions, but their metric ids stay for as long as the execution lasts. How
    many each subtask reads is the gauge ``DynamicKafkaSource.activeSplitCount`` (FLINK-39990).

    Args:
        counted: Of :func:`count_partitions`.
        answers: Of the source.
        parallelism: Of the source.

    Returns:
        What was counted where the gauge is missing, does not tell of all subtasks, or tells that none reads anything:
        partitions are handed out only after the start.
    """
    splits = answers.get(FlinkMetric.ACTIVE_SPLITS, Aggregate())
    total, average = splits.total, splits.average
    if total is None or average is None or not 0 < total < _MAX_SPLITS or total != round(total):
        return counted
    # The average is over the subtasks that answered: with all of them it makes the sum again.
    return round(total) if math.isclose(average * parallelism, total, rel_tol=1e-6) else counted


_MAX_SPLITS: Final = 2.0**31

IDLE_BUSY_MS: Final = 10.0
"""Milliseconds per second for which a subtask without a partition may be busy: with watermarks and checkpoints."""


def idle_subtasks(vertex: Vertex, aggregates: VertexAggregates) -> int:
    """Count the subtasks of a source without a partition; 0 where the count of partitions cannot be right.

    Partitions are counted by the names of metrics, which may be there for some of the subtasks only. Then more of them
    are busy than there are partitions: their busy time adds up to more than that of so many busiest ones.
    """
    count = vertex.source_partitions
    busy = aggregates.get(FlinkMetric.BUSY_TIME)
    if not (vertex.is_source and 0 < count < vertex.parallelism) or busy is None or vertex.is_finished:
        return 0
    if busy.average is None or busy.maximum is None:
        return 0
    idle = vertex.parallelism - count
    possible = count * busy.maximum + idle * IDLE_BUSY_MS
    total = busy.average * vertex.parallelism
    return idle if math.isfinite(possible) and 0 <= total <= possible else 0


def of_working_subtasks(aggregate: Aggregate, vertex: Vertex) -> Aggregate:
    """Return what the working subtasks report, of which an aggregate over all of them tells; the idle ones report 0.

    The smallest value is that of an idle one. That of the others is not known; their mean stands for it.
    """
    if vertex.idle_subtasks == 0 or aggregate.average is None:
        return aggregate
    mean = aggregate.average * vertex.parallelism / vertex.working_subtasks
    return aggregate._replace(average=mean, minimum=mean)
