"""Builders of what policies see: every one fills in what a case does not care about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import (
    DemandForecast,
    JobObservation,
    Outage,
    PolicyInput,
    Proposal,
    VertexObs,
)
from flink_autoscaler.core.options.option import PREFIX
from flink_autoscaler.core.ports.plugins import ScalingPolicy

NOW = 1_700_000_000.0
WINDOW = 900.0
NO_OUTAGE = Outage(0.0, 0.0)


def vertex(
    vertex_id: str = "source",
    *,
    parallelism: int = 4,
    rate_in: float | None = 1_000.0,
    busy: float | None = 0.7,
    is_source: bool | None = None,
    **changes: Any,
) -> VertexObs:
    """Make a vertex that keeps up: its true rate follows from rate and busy share, and it has no lag.

    Args:
        vertex_id: Also its name.
        parallelism: Of bounds 1 to 128 unless told otherwise.
        rate_in: Records/s; the target is the same unless told otherwise.
        busy: Share of its time; the rest is idle.
        is_source: Without it, a vertex whose id begins with "source" is one.
        changes: Any other field.
    """
    source = vertex_id.startswith("source") if is_source is None else is_source
    made = VertexObs(
        vertex_id=vertex_id,
        name=vertex_id,
        is_source=source,
        parallelism=parallelism,
        min_parallelism=1,
        max_parallelism=128,
        rate_in=rate_in,
        target_rate=rate_in,
        true_rate=rate_in / busy if rate_in and busy else None,
        busy=busy,
        busy_mean=busy,
        idle=None if busy is None else 1.0 - busy,
        backpressured=0.0,
        lag_records=0.0 if source else None,
        lag_slope=0.0 if source else None,
    )
    return replace(made, **changes)


def observation(
    *vertices: VertexObs,
    edges: Mapping[tuple[VertexId, VertexId], float] | None = None,
    now: float = NOW,
    **changes: Any,
) -> JobObservation:
    """Make the observation of a job that has been running for long; without ``edges`` the vertices are a chain.

    In a chain an edge carries what its two ends tell: the rate into the second per record into the first.
    """
    made = JobObservation(
        job_key="main/job",
        job_id="a" * 32,
        now=now,
        status=JobStatus.RUNNING,
        all_tasks_running=True,
        window=(now - WINDOW, now),
        vertices={each.vertex_id: each for each in vertices},
        edges=_chain(vertices) if edges is None else edges,
        slot_groups={"default": frozenset(each.vertex_id for each in vertices)},
    )
    return replace(made, **changes)


def _chain(vertices: tuple[VertexObs, ...]) -> dict[tuple[VertexId, VertexId], float]:
    return {
        (u.vertex_id, v.vertex_id): v.rate_in / u.rate_in
        for u, v in pairwise(vertices)
        if u.rate_in and v.rate_in is not None
    }


def given(
    obs: JobObservation,
    options: Mapping[str, str] | None = None,
    *,
    state: Mapping[str, Any] | None = None,
    downtime: Outage = NO_OUTAGE,
    demand: DemandForecast | None = None,
) -> PolicyInput:
    """Make the input of a policy; ``options`` are relative to ``job.autoscaler.``."""
    config = {PREFIX + key: value for key, value in (options or {}).items()}
    return PolicyInput(obs, (), demand, downtime, config, state or {})


def run(policy: ScalingPolicy, inputs: Iterable[PolicyInput]) -> list[Proposal]:
    """Ask a policy again and again, each time with the state that it returned before."""
    proposals: list[Proposal] = []
    for each in inputs:
        state = proposals[-1].state if proposals else each.state
        proposals.append(policy.propose(replace(each, state=state)))
    return proposals


def codes(proposal: Proposal) -> set[str]:
    """Return the codes of the reasons."""
    return {reason.code for reason in proposal.reasons}
