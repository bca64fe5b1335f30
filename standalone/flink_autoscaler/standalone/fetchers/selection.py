"""Which jobs of a cluster are looked after, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from flink_autoscaler.clients.flink.decode import JobOverview
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings


@dataclass(frozen=True, slots=True)
class JobSelection:
    """Patterns of shells (``*``, ``?``, ``[abc]``) for whole job names; upper and lower case differ.

    Attributes:
        include: Of which a name matches one; empty takes all.
        exclude: Of which a name matches none; goes before ``include``.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: ClusterSettings) -> JobSelection:
        """Return the selection that is configured for a cluster."""
        return cls(settings.include, settings.exclude)

    def takes(self, name: str) -> bool:
        """Tell whether a job with this name, as the cluster reports it, is looked after."""
        return (not self.include or _matches(name, self.include)) and not _matches(name, self.exclude)

    def split(self, jobs: Mapping[JobKey, JobOverview]) -> tuple[dict[JobKey, JobOverview], frozenset[JobKey]]:
        """Return the jobs that are looked after, in the order given, and the keys of the others."""
        taken = {key: job for key, job in jobs.items() if self.takes(job.name)}
        return taken, frozenset(jobs.keys() - taken.keys())


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
