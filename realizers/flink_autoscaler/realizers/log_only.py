"""A dry run: decisions are written to the log, clusters are not changed."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from flink_autoscaler.core.model.job import JobKey, JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import NO_TERMS, Realization, RealizationTerms
from flink_autoscaler.realizers.realization import UNCHANGED, BoundedMemory, check_overrides

log = structlog.get_logger(__name__)


class LogOnlyRealizer:
    """Sends no request of any kind; logs what would be requested, whenever that changes."""

    def __init__(self) -> None:
        self._overrides: BoundedMemory[JobKey, Mapping[VertexId, int]] = BoundedMemory()
        self._changes: BoundedMemory[JobKey, ConfigChanges] = BoundedMemory()

    def realize_overrides(
        self, context: JobAutoScalerContext, overrides: Mapping[VertexId, int], *, terms: RealizationTerms = NO_TERMS
    ) -> Realization:
        """Log the parallelism that every named vertex would get.

        Raises:
            RealizeError: A parallelism could not be requested from any cluster.
        """
        check_overrides(overrides)
        if context.status is JobStatus.RUNNING or terms.is_repair:
            wanted = dict(overrides)
            if self._overrides.put(context.job_key, wanted) != wanted:
                log.info("dry_run_rescale", cluster=context.cluster, job_key=context.job_key, parallelism=wanted)
        return UNCHANGED

    def realize_config(self, context: JobAutoScalerContext, changes: ConfigChanges) -> Realization:
        """Log the keys that would be set and removed; not their values."""
        is_worth_a_line = bool(changes.overrides or changes.removals) and context.status is JobStatus.RUNNING
        if is_worth_a_line and self._changes.put(context.job_key, changes) != changes:
            log.info(
                "dry_run_config",
                cluster=context.cluster,
                job_key=context.job_key,
                set_keys=sorted(changes.overrides),
                removed_keys=list(changes.removals),
            )
        return UNCHANGED

    def close(self) -> None:
        """Release nothing: there are no connections."""
