"""Base of all engines: the jobs that need no reading, groups of jobs behind one endpoint, and their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from flink_autoscaler.core.cycle.outcome import failed_outcome, without_reading
from flink_autoscaler.core.error_boundary import try_call
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.ports.passes import EngineUse, PassOutcome, PassRequest

INLINE: Final = "inline"
CONFIGURED: Final = "configured"
"""Why an engine is used that was asked for by its name."""

Evaluate = Callable[[Sequence[PassRequest]], Sequence[PassOutcome]]


def evaluate_pending(requests: Sequence[PassRequest], evaluate: Evaluate) -> list[PassOutcome]:
    """Return one outcome per request, in the same order; only jobs that have to be read are evaluated."""
    # By position: engines answer in any order, and what belongs to a job must not shift to its neighbour.
    outcomes: dict[int, PassOutcome] = {}
    for position, request in enumerate(requests):
        found = try_call(partial(without_reading, request), what=job_label(request))
        outcome = failed_outcome(request, found) if isinstance(found, AutoscalerError) else found
        if outcome is not None:
            outcomes[position] = outcome
    open_ = [position for position in range(len(requests)) if position not in outcomes]
    # No engine is woken for nothing: Spark would start a job.
    if open_:
        evaluated = evaluate([requests[position] for position in open_])
        outcomes |= zip(open_, evaluated, strict=True)
    return [outcomes[position] for position in range(len(requests))]


def with_engine(use: EngineUse, outcomes: Iterable[PassOutcome]) -> list[PassOutcome]:
    """Return outcomes that say where they come from."""
    return [replace(outcome, engine=use) for outcome in outcomes]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that reading may take: one job or the metrics of one cluster, and all jobs of the pass."""

    job: float
    pass_: float


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Result of one job.

    Attributes:
        outcome: None where its endpoint took too long for those that share a task with it.
        seconds: That its endpoint took.
    """

    outcome: PassOutcome | None
    seconds: float


def completed_outcomes(answers: Iterable[EvaluationResult]) -> list[PassOutcome]:
    """Return the outcomes of jobs none of which was given up."""
    return [answer.outcome for answer in answers if answer.outcome is not None]


@dataclass(frozen=True, slots=True)
class EndpointGroup:
    """Jobs behind one endpoint.

    Attributes:
        positions: Of the requests in their pass, in the same order.
        cluster: What was read about the cluster in this pass; None when that is still to be done.
    """

    endpoint: Endpoint
    positions: tuple[int, ...]
    requests: tuple[PassRequest, ...]
    cluster: ClusterReading | None = None


def group_by_endpoint(requests: Sequence[PassRequest]) -> list[EndpointGroup]:
    """Group requests with their positions by endpoint, in the order in which endpoints appear."""
    # A dict keeps the order of first appearance, which makes the way of a pass repeatable.
    places: dict[Endpoint, list[int]] = {}
    for place, request in enumerate(requests):
        places.setdefault(request.context.endpoint, []).append(place)
    return [
        EndpointGroup(endpoint, tuple(mine), tuple(requests[each] for each in mine))
        for endpoint, mine in places.items()
    ]


def job_label(request: PassRequest) -> str:
    """Return what a job is called in errors."""
    return f"job {request.context.job_key}"
