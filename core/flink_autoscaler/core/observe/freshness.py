"""When Flink gathered what it answers with: it does so when it is asked, and not in every pass.

Answers that were gathered together are one sample, however many passes read them, and what was gathered before a quiet
time or before a restart is none.
"""

from __future__ import annotations

import math
from typing import Final

from flink_autoscaler.core.errors import MissingMetricError
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import MetricSample
from flink_autoscaler.core.model.reading import ClusterReading, CollectorMemory, JobReading
from flink_autoscaler.core.model.topology import JobDetails
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.ports.passes import PassRequest

OLD: Final = 2
"""Intervals after which what a cluster says is old."""

_BUSY_MS: Final = 10_000
"""What is younger is not old where tasks tell its instant: on a busy machine Flink needs seconds to gather metrics,
however short its interval."""

MAX_LATE_MS: Final = 900_000
"""By how much an answer may be later than its pass, which waits for a worker and may begin again in another process.

What is further off is by another clock, as in a simulation.
"""

_SHORT_MS: Final = 100
"""A delay that moves no sample: its own requests take as long."""

_READING_MS: Final = 2000
"""What a sample may have been labelled too late: its requests take time."""


def staleness_ms(at_ms: int, than_ms: int) -> int:
    """Return how much later an instant is than another one; 0 where that cannot be by one clock."""
    late = at_ms - than_ms
    return late if 0 < late < MAX_LATE_MS else 0


def at_reading_time(request: PassRequest, reading: JobReading, cluster: ClusterReading) -> PassRequest:
    """Return the request as of the instant at which all answers were there: counters are those of that instant.

    A pass may have waited for a worker that stood still, for the cluster to gather metrics, or for its answers.
    """
    # The wait for the cluster is a part of how late the reading is, where that is known: they do not add up.
    late = max(staleness_ms(reading.read_ms, request.now_ms), cluster.waited_ms)
    return replace(request, now_ms=request.now_ms + late) if late > _SHORT_MS else request


def _age_ms(reading: JobReading, cluster: ClusterReading) -> int:
    """Return how much before its answers what a job answers with may have been gathered.

    Whoever reads other jobs meanwhile makes Flink gather again after an interval.
    """
    apart_ms = staleness_ms(reading.read_ms, cluster.read_ms)
    return cluster.age_ms + (min(apart_ms, cluster.interval_ms) if apart_ms > _SHORT_MS else 0)


def staleness_reason(request: PassRequest, reading: JobReading, cluster: ClusterReading) -> Reason | None:
    """Return why what was read is no sample: it may be from before a quiet time or a restart, or not be there yet.

    What comes from a store that was empty a moment ago is fresh.
    """
    options = request.context.options
    # A source that dates its metrics needs no guess about when Flink gathered them.
    if reading.at_ms is not None or reading.doubt:
        return _not_of_now(request, reading)
    if not options.is_improved:
        return None
    doubt = cluster.doubt or _slow_reading_text(request, reading, cluster)
    # Proof outweighs suspicion, but not a restart: times that are compared over it are of two executions.
    doubt = "" if doubt and _is_proven(request, reading, cluster) else doubt
    doubt = doubt or _before_restart(request, reading, cluster)
    if not doubt:
        return None
    # A reading that failed has its own reason, unless what it lacks is what was not gathered yet.
    is_missing = isinstance(reading.error, MissingMetricError)
    is_doubtful = reading.error is None and cluster.has_taskmanagers
    return Reason.of(ReasonCode.METRICS_NOT_FRESH, doubt=doubt) if is_missing or is_doubtful else None


def _not_of_now(request: PassRequest, reading: JobReading) -> Reason | None:
    """Return why metrics whose source tells of which instant they are, are no sample."""
    running_at_ms = None if reading.details is None else reading.details.running_at_ms
    doubt, at_ms = reading.doubt, reading.at_ms
    if not doubt and at_ms is not None and at_ms < (running_at_ms or 0):
        doubt = "the metrics are from before the job began to run"
    if (
        not doubt
        and at_ms is not None
        and any(at_ms < sample.at_ms - _READING_MS for sample in request.state.samples[-1:])
    ):
        doubt = "the metrics are from before those of the pass before"
    return Reason.of(ReasonCode.METRICS_NOT_FRESH, doubt=doubt) if doubt and reading.error is None else None


def _slow_reading_text(request: PassRequest, reading: JobReading, cluster: ClusterReading) -> str:
    """Say that Flink may have gathered anew while the job was read, so that its answers are of two instants.

    The first sample is taken nevertheless: a cluster may be as slow as that every time.
    """
    took_ms = staleness_ms(reading.read_ms, reading.asked_ms)
    if not cluster.interval_ms or took_ms < max(cluster.interval_ms, _READING_MS) or not request.state.samples:
        return ""
    return f"the answers took {took_ms / 1000:.0f} s, and Flink may have gathered metrics meanwhile"


def _before_restart(request: PassRequest, reading: JobReading, cluster: ClusterReading) -> str:
    """Say that metrics were gathered before the job began to run as it does; empty where they were not."""
    details = reading.details
    if details is None or details.running_at_ms is None:
        return ""
    is_before = 0 < request.now_ms - details.running_at_ms < _age_ms(reading, cluster)
    # The tasks are new and their times those of before: Flink still answers with what the old ones said.
    has_restarted = any(details.running_at_ms > sample.at_ms for sample in request.state.samples[-1:])
    is_same = has_restarted and is_collected_before(details, request.memory, cluster)
    return "Flink has not gathered metrics since the job began to run" if is_before or is_same else ""


def _is_proven(request: PassRequest, reading: JobReading, cluster: ClusterReading) -> bool:
    """Tell whether the tasks have run for longer than at the last sample, and until lately: they were asked since."""
    details = reading.details
    if details is None or not request.state.samples or is_collected_before(details, request.memory, cluster):
        return False
    last = request.state.samples[-1]
    return (details.running_at_ms or 0) <= last.at_ms and task_clock_ms(request, last, reading, cluster) is not None


def task_clock_ms(request: PassRequest, last: MetricSample, reading: JobReading, cluster: ClusterReading) -> int | None:
    """Return when Flink gathered what it answers with by the tasks' own clocks; None where these do not tell.

    Args:
        request: With what is remembered of the last sample, as of the instant of the answers.
        last: That sample, of this execution.
        reading: The answers.
        cluster: Tells how old an answer can be.
    """
    before_ms = request.memory.task_ms
    later_ms = None if reading.details is None else task_ms(reading.details)
    if not cluster.interval_ms or before_ms is None or later_ms is None:
        return None
    # Subtasks run for as long as passes between two gatherings, whoever asked for them and when.
    at_ms = last.at_ms + round(later_ms - before_ms)
    old_ms = max(OLD * cluster.interval_ms, _BUSY_MS)
    least_ms = max(request.now_ms - _age_ms(reading, cluster) - old_ms, last.at_ms)
    return min(at_ms, request.now_ms) if least_ms <= at_ms <= request.now_ms + _READING_MS else None


def task_ms(details: JobDetails) -> float | None:
    """Return for how long a subtask has run, on average, when metrics were gathered; None where that is not known.

    The three times that Flink tells of every vertex, idle, busy and held up, add up to that.
    """
    passed, count = list[float](), 0
    for vertex in details.vertices:
        io = vertex.io
        # A finished task stands still and would slow the clock down.
        if vertex.status != "FINISHED" and io.idle_ms is not None and io.backpressured_ms is not None:
            passed.append(io.idle_ms + io.backpressured_ms + io.busy_ms)
            count += vertex.parallelism
    total = math.fsum(passed)
    return total / count if count and math.isfinite(total) and total > 0 else None


def is_collected_before(details: JobDetails, memory: CollectorMemory, cluster: ClusterReading) -> bool:
    """Tell whether Flink answers with what it had gathered when the last sample was taken."""
    if cluster.interval_ms <= 0:
        return False
    passed = task_ms(details)
    return passed is not None and passed == memory.task_ms


def collection_time_ms(
    request: PassRequest, last: MetricSample | None, reading: JobReading, cluster: ClusterReading
) -> int:
    """Return the instant of a sample: that at which Flink gathered it, so that no time passes between equal counters.

    What was gathered together with the last sample has its instant, and takes its place. For another gathering the
    tasks tell how much later it was, also where somebody else has asked for it.
    """
    now_ms = request.now_ms
    if not request.context.options.is_improved:
        return now_ms
    age_ms = _age_ms(reading, cluster)
    at_ms = now_ms - age_ms
    if last is None or not last.at_ms <= now_ms:
        return at_ms
    told = task_clock_ms(request, last, reading, cluster)
    if told is not None:
        return told
    # Never the same instant for another gathering: it would take the place of the last sample.
    return max(at_ms, last.at_ms + 1) if age_ms else now_ms
