"""The limits of reactive mode (FLIP-159), looked for before the first TaskManager is added or taken away."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.clients.flink.decode import JobListing
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import RefusedError
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.options.context import JobAutoScalerContext

_UNALIGNED_SINCE: Final = (1, 13)
"""Flink version that can rescale from unaligned checkpoints (FLINK-17979)."""
_RESOURCE_MANAGERS: Final = {"yarn": "YARN", "kubernetes": "Kubernetes"}
_TRUE: Final = "true"


@dataclass(frozen=True, slots=True)
class ReactiveJob:
    """What the cluster says about a job in reactive mode.

    Attributes:
        max_parallelism: Of every vertex.
        interval_ms: Time between checkpoints; None when it makes none.
        problems: Which limits it breaks, one sentence each; empty for a job that can be scaled.
    """

    max_parallelism: Mapping[VertexId, int]
    interval_ms: int | None
    problems: tuple[str, ...] = ()


async def read_reactive_job(client: FlinkRestClient, context: JobAutoScalerContext) -> ReactiveJob:
    """Ask a cluster about a job.

    Raises:
        FlinkRestError: No usable answer.
    """
    job_id = context.job_id or ""
    details = await client.job_details(job_id)
    listing = await client.job_listing()
    version = await client.flink_version()
    interval_ms = await _interval(client, job_id)
    limits = {vertex.vertex_id: vertex.max_parallelism for vertex in details.vertices}
    problems = (*_job_problems(context, listing), *_checkpoint_problems(context.configuration, version, interval_ms))
    return ReactiveJob(limits, interval_ms, problems)


async def _interval(client: FlinkRestClient, job_id: str) -> int | None:
    try:
        return await client.checkpoint_interval(job_id)
    except RefusedError:  # 404: the job makes no checkpoints
        return None


def _job_problems(context: JobAutoScalerContext, listing: JobListing) -> tuple[str, ...]:
    configuration, problems = context.configuration, []
    # A job whose entry cannot be read may run.
    alive = len(listing.unreadable) + sum(not JobStatus.of(job.state).is_terminal for job in listing.jobs)
    if alive > 1:
        problems.append(f"reactive mode is for application clusters with one job; {alive} run here")
    is_batch = any(job.job_id == context.job_id and (job.job_type or "").upper() == "BATCH" for job in listing.jobs)
    if is_batch or configuration.get("execution.runtime-mode", "").strip().upper() == "BATCH":
        problems.append("reactive mode is for streaming; the job runs in batch mode (execution.runtime-mode)")
    target = configuration.get("execution.target", "").strip().lower()
    manager = next((name for prefix, name in _RESOURCE_MANAGERS.items() if target.startswith(prefix)), None)
    if manager is not None:
        problems.append(f"reactive mode is for standalone clusters; this one gets its TaskManagers from {manager}")
    if _is_true(configuration, "cluster.fine-grained-resource-management.enabled"):
        problems.append("reactive mode does not know fine-grained resources (cluster.fine-grained-resource-management)")
    return tuple(problems)


def _checkpoint_problems(configuration: Mapping[str, str], version: str, interval_ms: int | None) -> tuple[str, ...]:
    problems = []
    if interval_ms is None:
        problems.append(
            "checkpointing is off: every change of the TaskManagers would start the job without its state "
            "(execution.checkpointing.interval)"
        )
    is_unaligned = any(
        _is_true(configuration, f"execution.checkpointing.unaligned{ending}") for ending in ("", ".enabled")
    )
    if is_unaligned and _version(version) < _UNALIGNED_SINCE:
        problems.append(
            f"Flink {version} cannot rescale from unaligned checkpoints (execution.checkpointing.unaligned)"
        )
    return tuple(problems)


def _is_true(configuration: Mapping[str, str], key: str) -> bool:
    return configuration.get(key, "").strip().lower() == _TRUE


def _version(text: str) -> tuple[int, int]:
    """Return major and minor version; one that cannot be read counts as a later one."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (9999, 0)
