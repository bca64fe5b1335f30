"""Base of all engines: the jobs that need no reading, groups of jobs behind one endpoint, and their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from flink_autoscaler.core.border import attempted
from flink_autoscaler.core.cycle.outcome import failed, without_reading
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.ports.passes import EngineUse, PassOutcome, PassRequest

INLINE: Final = "inline"
CONFIGURED: Final = "configured"
"""Why an engine is used that was asked for by its name."""

Evaluate = Callable[[Sequence[PassRequest]], Sequence[PassOutcome]]


def with_settled(requests: Sequence[PassRequest], evaluate: Evaluate) -> list[PassOutcome]:
    """Return one outcome per request, in the same order; only jobs that have to be read are evaluated."""
    outcomes: dict[int, PassOutcome] = {}
    for position, request in enumerate(requests):
        found = attempted(partial(without_reading, request), what=name_of(request))
        outcome = failed(request, found) if isinstance(found, AutoscalerError) else found
        if outcome is not None:
            outcomes[position] = outcome
    open_ = [position for position in range(len(requests)) if position not in outcomes]
    if open_:
        evaluated = evaluate([requests[position] for position in open_])
        outcomes |= zip(open_, evaluated, strict=True)
    return [outcomes[position] for position in range(len(requests))]


def used(use: EngineUse, outcomes: Iterable[PassOutcome]) -> list[PassOutcome]:
    """Return outcomes that say where they come from."""
    return [replace(outcome, engine=use) for outcome in outcomes]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that reading may take: one job or the metrics of one cluster, and all jobs of the pass."""

    job: float
    pass_: float


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of one job.

    Attributes:
        outcome: None where its endpoint took too long for those that share a task with it.
        seconds: That its endpoint took.
    """

    outcome: PassOutcome | None
    seconds: float


def whole(answers: Iterable[Answer]) -> list[PassOutcome]:
    """Return the outcomes of jobs none of which was given up."""
    return [answer.outcome for answer in answers if answer.outcome is not None]


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs behind one endpoint.

    Attributes:
        positions: Of the requests in their pass, in the same order.
        cluster: What was read about the cluster in this pass; None when that is still to be done.
    """

    endpoint: Endpoint
    positions: tuple[int, ...]
    requests: tuple[PassRequest, ...]
    cluster: ClusterReading | None = None


def grouped(requests: Sequence[PassRequest]) -> list[Group]:
    """Group requests with their positions by endpoint, in the order in which endpoints appear."""
    places: dict[Endpoint, list[int]] = {}
    for place, request in enumerate(requests):
        places.setdefault(request.context.endpoint, []).append(place)
    return [Group(endpoint, tuple(mine), tuple(requests[each] for each in mine)) for endpoint, mine in places.items()]


def name_of(request: PassRequest) -> str:
    """Return what a job is called in errors."""
    return f"job {request.context.job_key}"
