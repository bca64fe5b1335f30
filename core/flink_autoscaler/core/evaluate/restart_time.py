"""How long a restart is assumed to take: as measured, once it was measured often enough, else as configured."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from statistics import median
from typing import Final, NamedTuple

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.core.observe.history import restart_time
from flink_autoscaler.core.options.job import AutoscalerOptions

ENOUGH: Final = 3
"""Measured outages that replace what is configured; one alone may have been an exception."""

NEWEST: Final = 20
"""Outages of a job that count; older ones tell less about what it is now."""

SHORTEST: Final = 5
"""Seconds; a plan for less makes no difference."""

KEPT: Final = 30
"""Outages that are kept of a cluster, ``ENOUGH`` of each job at most."""


def assumed_restart(state: JobState, elsewhere: Sequence[int], options: AutoscalerOptions) -> int:
    """Return the seconds a restart is assumed to take.

    That is the median of what was measured, rounded up, between ``SHORTEST`` and ``restart.time-tracking.limit``: half
    of all restarts take longer and half of them less, and one that took for ever counts no more than any other.

    Args:
        state: Of the job, with the rescales that were followed.
        elsewhere: Milliseconds that rescales took other jobs of the cluster away; they count until the job has
            ``ENOUGH`` outages of its own.
        options: Of the job. ``restart.time-tracking.enabled`` goes before everything else.
    """
    assumed = restart_time(state.tracking, options)
    if options.restart_time_tracking or not options.measures_restarts:
        return assumed
    own = newest_outages(state.supervision, NEWEST)
    known = own if len(own) >= ENOUGH else [*own, *elsewhere]
    if len(known) < ENOUGH:
        return assumed
    return max(SHORTEST, min(math.ceil(median(known) / 1000), options.restart_time_limit.seconds))


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
        """Return what rescales took other jobs of a cluster away, milliseconds, oldest first."""
        with self._lock:
            return tuple(each.outage_ms for each in self._entries.get(cluster, ()) if each.job_key != job_key)

    def forget(self, job_key: JobKey) -> None:
        """Forget a job; clusters of which nothing is left are forgotten, too."""
        with self._lock:
            kept = {name: tuple(e for e in entries if e.job_key != job_key) for name, entries in self._entries.items()}
            self._entries = {name: entries for name, entries in kept.items() if entries}
