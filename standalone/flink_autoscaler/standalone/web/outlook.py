"""What a person asks about a job at first sight: why nothing happens, what may happen next, and who has to look."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.supervision import SupervisionPhase, described
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.standalone.records.explain import SIZED, wanted_of
from flink_autoscaler.standalone.web.fleet import JobNow

Expected = tuple[str, int | None]
"""What may happen, and from when on (epoch milliseconds); None where no instant is known."""

_BLIND: Final = frozenset({PassPhase.ERROR, PassPhase.INVALID_CONFIG})
_SHORT: Final = frozenset({"HEADROOM_REACHED", "SLOTS_MISSING", "SCALING_LIMITED", "QUOTA_REACHED"})
"""Codes of reasons for which a job may get less than its load asks for."""


def other_parallelism(outcome: PassOutcome) -> dict[VertexId, int]:
    """Return the parallelism of vertices that load, pins or orders want to be another than it is."""
    running = {} if outcome.topology is None else outcome.topology.vertices
    wanted = wanted_of(outcome.state.supervision, outcome)
    return {v: n for v, n in wanted.items() if v in running and n != running[v].parallelism}


def expected(request: PassRequest | None, outcome: PassOutcome | None) -> Iterator[Expected]:
    """Yield what may happen next to a job, the soonest known first."""
    if request is None or outcome is None:
        return
    found = [*_window(request, outcome), *_supervised(outcome), *_delayed(request, outcome)]
    yield from sorted(found, key=lambda each: math.inf if each[1] is None else each[1])


def concerns(job: JobNow) -> Iterator[str]:
    """Yield why a person should look at a job."""
    if job.failure:
        yield job.failure
    if job.report is None:
        return
    outcome = job.report.outcome
    if outcome.phase in _BLIND:
        yield from (reason.text for reason in outcome.decision.reasons[:1])
    if outcome.state.supervision.phase in (SupervisionPhase.PAUSED, SupervisionPhase.ROLLING_BACK):
        yield f"it is {outcome.state.supervision.phase.value} after a rescale that did not work"
    late = job.figures.lag_seconds
    limit = job.context.options.slo_lag.exact_seconds
    for reason in outcome.decision.reasons:
        if reason.code in _SHORT and late is not None and late > limit:
            yield f"it is {late:.0f} s late and gets no more: {reason.text}"
    yield from (str(error) for error in job.report.errors if outcome.phase not in _BLIND)


def why(outcome: PassOutcome) -> list[Reason]:
    """Return the reasons of a pass that people read, without the figures of vertices that stay as they are."""
    reasons = outcome.decision.reasons
    return [reason for reason in reasons if reason.code not in SIZED] or list(reasons)


def _window(request: PassRequest, outcome: PassOutcome) -> Iterator[Expected]:
    for reason in outcome.decision.reasons:
        left = dict(reason.figures).get("left")
        if reason.code == "WINDOW_FILLING" and left is not None and math.isfinite(left):
            yield "the metric window is full, and load decides", round(request.now_ms + 1000 * left)


def _supervised(outcome: PassOutcome) -> Iterator[Expected]:
    supervision = outcome.state.supervision
    current = supervision.under_way
    if current is not None:
        change = described(outcome.vertex_names, current.before, current.target)
        yield f"the job runs with {change} ({current.stage.value})", None
    if supervision.phase is SupervisionPhase.PROBATION:
        yield "the last rescale is on probation: it is undone where the job does worse", None


def _delayed(request: PassRequest, outcome: PassOutcome) -> Iterator[Expected]:
    interval = request.context.options.scale_down_interval.exact_seconds
    names = outcome.vertex_names
    for vertex_id, delayed in outcome.state.delayed.items():
        yield f"{names.get(vertex_id, vertex_id)} may be scaled down", round(delayed.first_ms + 1000 * interval)
