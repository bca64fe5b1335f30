"""How long a restart is assumed to take: as measured, once it was measured often enough, else as configured."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from statistics import median
from typing import Final, NamedTuple

from flink_autoscaler.core.model.decision import RestartBasis, RestartSource, RestartTime
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.core.observe.history import is_restart_tracked, restart_time
from flink_autoscaler.core.options.job import AutoscalerOptions

ENOUGH: Final = 3
"""Measured outages of the job, or jobs that were measured, that replace what is configured. One alone may have been an
exception, and of three jobs two have to agree."""

NEWEST: Final = 20
"""Outages of a job that count; older ones tell less about what it is now."""

SHORTEST: Final = 5
"""Seconds; a plan for less makes no difference."""

KEPT: Final = 30
"""Outages that are kept of a cluster, ``ENOUGH`` of each job at most."""


def assumed_restart(state: JobState, elsewhere: Sequence[int], options: AutoscalerOptions) -> RestartTime:
    """Return how long a restart is assumed to take, and what that rests on.

    That is the median of what was measured, rounded up, between ``SHORTEST`` and ``restart.time-tracking.limit``: half
    of all restarts take longer and half of them less, and one that took for ever counts no more than any other.

    Args:
        state: Of the job, with the rescales that were followed.
        elsewhere: Milliseconds that rescales took other jobs of the cluster away, one figure per job. They count until
            the job has ``ENOUGH`` outages of its own, where with it ``ENOUGH`` jobs were measured: then what one of
            them says is never the median, however far it is from the others.
        options: Of the job. ``restart.time-tracking.enabled`` goes before everything else.
    """
    assumed, own = restart_time(state.tracking, options), newest_outages(state.supervision, NEWEST)
    is_enough_elsewhere = len(elsewhere) + bool(own) >= ENOUGH
    others = elsewhere if len(own) < ENOUGH and is_enough_elsewhere else ()
    known = [*own, *others]
    if options.restart_time_tracking or not options.measures_restarts or len(known) < ENOUGH:
        return RestartTime(assumed, RestartBasis(_unmeasured(state, options), len(own), len(others)))
    source = RestartSource.MEASURED_OF_CLUSTER if others else RestartSource.MEASURED_OF_JOB
    seconds = max(SHORTEST, min(math.ceil(median(known) / 1000), options.restart_time_limit.seconds))
    return RestartTime(seconds, RestartBasis(source, len(own), len(others)))


def _unmeasured(state: JobState, options: AutoscalerOptions) -> RestartSource:
    is_tracked = options.restart_time_tracking and is_restart_tracked(state.tracking)
    return RestartSource.LONGEST_TRACKED if is_tracked else RestartSource.OPTION


def newest_outages(supervision: Supervision, most: int) -> list[int]:
    """Return what the newest rescales with a measured outage took the job away, milliseconds, newest first."""
    return [outage for _, outage in islice(_measured(supervision), most)]


def _measured(supervision: Supervision) -> Iterator[tuple[int, int]]:
    """Yield instant and outage of rescales, newest first."""
    for record in reversed(supervision.rescales):
        if record.outage_ms is not None and record.outage_ms >= 0:
            yield record.decided_ms, record.outage_ms


class _Entry(NamedTuple):
    decided_ms: int
    job_key: JobKey
    outage_ms: int


class ClusterOutages:
    """What the newest rescales of each cluster took its jobs away. Calls may come from any thread."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[_Entry, ...]] = {}
        self._lock = threading.Lock()

    def note(self, cluster: str, job_key: JobKey, supervision: Supervision) -> None:
        """Take note of what was measured of a job."""
        own = [_Entry(at_ms, job_key, outage) for at_ms, outage in islice(_measured(supervision), ENOUGH)]
        with self._lock:
            others = [each for each in self._entries.get(cluster, ()) if each.job_key != job_key]
            self._entries[cluster] = tuple(sorted([*others, *own])[-KEPT:])

    def elsewhere(self, cluster: str, job_key: JobKey) -> tuple[int, ...]:
        """Return what rescales took other jobs of a cluster away, milliseconds, one median per job."""
        by_job: dict[JobKey, list[int]] = {}
        with self._lock:
            entries = self._entries.get(cluster, ())
        for each in entries:
            if each.job_key != job_key:
                by_job.setdefault(each.job_key, []).append(each.outage_ms)
        return tuple(round(median(outages)) for outages in by_job.values())

    def forget(self, job_key: JobKey) -> None:
        """Forget a job; clusters of which nothing is left are forgotten, too."""
        with self._lock:
            kept = {name: tuple(e for e in entries if e.job_key != job_key) for name, entries in self._entries.items()}
            self._entries = {name: entries for name, entries in kept.items() if entries}
