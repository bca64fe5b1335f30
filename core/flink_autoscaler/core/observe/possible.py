"""Values that cannot be: what a cluster says about itself is bounded by what clusters are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flink_autoscaler.core.errors import ResponseError
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric
from flink_autoscaler.core.model.reading import VertexAggregates
from flink_autoscaler.core.model.topology import JobDetails, JobTopology

MOST: Final = 2.0**53 - 1
"""A double counts no further: what is read as more may have been anything. No counter, lag or size in bytes of a job
comes near it."""

MOST_MS_PER_SECOND: Final = 2000.0
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


def possible_aggregates(answers: VertexAggregates, greatest_rate: float, parallelism: int) -> VertexAggregates:
    """Return the metrics of a vertex without the values that cannot be.

    Args:
        answers: As the cluster gave them.
        greatest_rate: Records/s that no subtask can process.
        parallelism: Of the vertex.
    """
    found: dict[FlinkMetric, Aggregate] = {}
    for metric, aggregate in answers.items():
        # The most that one subtask may report, and all of them together.
        if metric in _RATES:
            possible = _possible(aggregate, greatest_rate, greatest_rate * parallelism)
        elif metric in _SHARES:
            possible = _possible(aggregate, MOST_MS_PER_SECOND, MOST_MS_PER_SECOND * parallelism)
        else:
            possible = _possible(aggregate, MOST, MOST)
        if possible is not aggregate:
            found[metric] = possible
    return {**answers, **found} if found else answers


def _possible(aggregate: Aggregate, most: float, most_together: float) -> Aggregate:
    low, high, average, total, skew = aggregate
    if (
        (low is None or 0 <= low <= most)
        and (high is None or 0 <= high <= most)
        and (average is None or 0 <= average <= most)
        and (total is None or 0 <= total <= most_together)
    ):
        return aggregate
    return Aggregate(
        low if low is None or 0 <= low <= most else None,
        high if high is None or 0 <= high <= most else None,
        average if average is None or 0 <= average <= most else None,
        total if total is None or 0 <= total <= most_together else None,
        skew,
    )


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


def most_of(topology: JobTopology, greatest_rate: float) -> Mapping[str, float]:
    """Return the records/s that the vertices which have not finished can process at most."""
    vertices = topology.vertices.items()
    return {v: greatest_rate * vertex.parallelism for v, vertex in vertices if not vertex.is_finished}
