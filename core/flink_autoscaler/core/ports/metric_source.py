"""Where the metrics of jobs come from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.ports.passes import PassRequest

ReadJob = Callable[[PassRequest], Awaitable[JobReading]]
"""Reads one job; never raises."""


class MetricSource(Protocol):
    """Reads the metrics of one cluster and its jobs: what a reading consists of does not depend on where it is from.

    Whatever does not answer, or not as documented, is in the readings: as ``error`` where a job cannot be looked at in
    this pass, as ``doubt`` where its metrics are no sample, and as values that are left out. A number that is not known
    is never 0. No method raises.

    Calls come from one event loop and may overlap; a source keeps nothing of a job from pass to pass but what is in the
    ``memory`` of its reading, since the next pass may be in another process.
    """

    async def read_cluster(self, seconds: float, *, is_fresh: bool = True, is_provable: bool = False) -> ClusterReading:
        """Return cluster-wide metrics; called once per pass, before jobs are read.

        Args:
            seconds: That this may take.
            is_fresh: Whether jobs are to be read from metrics that have just been gathered, where the source can see
                to that; that they were not is the ``doubt`` of the reading.
            is_provable: Whether the jobs can tell how old is what is read about them.
        """
        ...

    async def prepare(self, requests: Sequence[PassRequest], seconds: float) -> ReadJob:
        """Get ready to read jobs, all of one pass, and return what reads each of them, once.

        Args:
            requests: The jobs; a source that can ask for many at once does so here.
            seconds: That this may take; reading a job afterwards is bounded by the caller.
        """
        ...

    async def aclose(self) -> None:
        """Release connections. May be called more than once."""
        ...
