"""Where following rescales meets the pass over a job: before it decides, and after it has."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import IntEnum

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.supervision import (
    Origin,
    Requirements,
    RescaleRecord,
    Supervision,
    SupervisionPhase,
    Vector,
)
from flink_autoscaler.core.observe.conversion import convert_globals
from flink_autoscaler.core.options.safety import LowerBound
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.core.ports.plugins import Plugins
from flink_autoscaler.core.supervise.error_checkers import CHECKERS, GC, HEAP
from flink_autoscaler.core.supervise.following import Followed, follow, is_repairing
from flink_autoscaler.core.supervise.order_book import still_to_do
from flink_autoscaler.core.supervise.transition import SupervisionInput, begun

_PRESSURE = {GC: ScalingMetric.GC_PRESSURE, HEAP: ScalingMetric.HEAP_MAX_USAGE_RATIO}


class FactsWanted(IntEnum):
    """How much has to be asked about the rescale of a job."""

    NOTHING = 0
    REQUIREMENTS = 1
    EVERYTHING = 2


def facts_wanted(request: PassRequest) -> FactsWanted:
    """Tell what to ask about a job in this pass."""
    options, state, orders = request.context.options, request.state, request.orders
    if not options.improves(options.supervised_rescales) or request.context.job_id is None:
        return FactsWanted.NOTHING
    has_order = any(still_to_do(order, state.supervision) for order in (orders.rollback, orders.reset))
    if state.supervision.is_active or has_order or state.supervision.quarantine:
        return FactsWanted.EVERYTHING
    is_engaged = bool(state.overrides or orders.pins or state.supervision.seen or state.supervision.edit)
    return FactsWanted.REQUIREMENTS if is_engaged else FactsWanted.NOTHING


def followed(request: PassRequest, reading: JobReading, cluster: ClusterReading, plugins: Plugins) -> Followed:
    """Follow the rescale of a job where something was asked about it; what could not be read changes nothing."""
    supervision = request.state.supervision
    if facts_wanted(request) is FactsWanted.NOTHING:
        return Followed(request.state)
    if reading.facts is None:
        is_blind = bool(supervision.seen) and supervision.phase is not SupervisionPhase.ROLLING_BACK
        return Followed(request.state, is_repair=is_repairing(supervision), is_blind=is_blind)
    names = {v.vertex_id: v.name for v in reading.details.vertices} if reading.details else {}
    checkers = {**CHECKERS, **plugins.error_checkers}
    return follow(SupervisionInput(request, reading.facts, checkers, pressure(cluster), names))


def pressure(cluster: ClusterReading) -> dict[str, float]:
    """Return garbage collection and heap usage of the fullest TaskManager, where known."""
    if cluster.error is not None:
        return {}
    values = convert_globals(cluster, reports_gc=bool(cluster.taskmanagers))
    known = {name: values.get(metric, NAN) for name, metric in _PRESSURE.items()}
    return {name: value for name, value in known.items() if math.isfinite(value)}


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What is remembered of what a pass wants, and how it is to be realized.

    Attributes:
        least: Least parallelism that the cluster may give; 1 where it is not said.
        found: Resource requirements of the job in this pass; None where they are not known.
    """

    supervision: Supervision
    least: Vector = field(default_factory=dict)
    found: Requirements | None = None


def follow_up(outcome: PassOutcome, request: PassRequest, reading: JobReading, cluster: ClusterReading) -> FollowUp:
    """Begin to follow what an outcome wants, where that is new: a decision, a pin, or an override of the user's."""
    options, supervision = request.context.options, outcome.state.supervision
    if not options.improves(options.supervised_rescales) or request.context.job_id is None or not outcome.wanted:
        return FollowUp(supervision)
    running = _running(outcome, reading)
    if running and _is_new(outcome, request, running) and _may_begin(request, outcome):
        origin = Origin.AUTOSCALER if isinstance(outcome.decision, Rescale) else Origin.OPERATOR
        target = {vertex_id: outcome.wanted.get(vertex_id, parallelism) for vertex_id, parallelism in running.items()}
        given = SupervisionInput(request, _facts(reading))
        supervision = begun(supervision, given, running, target, origin, _why(origin, request))
        supervision = replace(supervision, baseline=pressure(cluster))
        if not supervision.initial:
            supervision = replace(supervision, initial=running, last_stable=running)
    found = reading.facts.requirements if reading.facts else None
    if _is_asked(outcome, request, supervision, found):
        supervision = replace(supervision, asked=dict(outcome.wanted))
    return FollowUp(supervision, _least(options.lower_bound, outcome.wanted, supervision.current), found)


def _is_new(outcome: PassOutcome, request: PassRequest, running: Vector) -> bool:
    """Tell whether something else is wanted than before."""
    supervision = outcome.state.supervision
    # What was decided before anything was followed is only taken note of.
    is_known = bool(supervision.asked or supervision.past or request.orders.pins)
    is_changed = dict(outcome.wanted) != dict(supervision.asked) and _differs(outcome.wanted, running)
    return isinstance(outcome.decision, Rescale) or (is_known and is_changed)


def _is_asked(outcome: PassOutcome, request: PassRequest, supervision: Supervision, found: Requirements | None) -> bool:
    """Tell whether what is wanted can be asked for in this pass, or has been: else it is new to the pass that does."""
    is_sent = request.context.status is JobStatus.RUNNING or outcome.is_repair or supervision.under_way is not None
    if is_sent or found is None:
        return is_sent
    return not _differs(outcome.wanted, {vertex_id: upper for vertex_id, (_, upper) in found.items()})


def _why(origin: Origin, request: PassRequest) -> str:
    if origin is Origin.AUTOSCALER:
        return "decided by load"
    return "wanted by a person" if request.orders.pins else "decided earlier or set by the user"


def _facts(reading: JobReading) -> RescaleFacts:
    """Return what was asked about the rescale; nothing but the clock of the JobManager where nothing was."""
    return reading.facts or RescaleFacts(now_ms=reading.details.now_ms if reading.details else None)


def _may_begin(request: PassRequest, outcome: PassOutcome) -> bool:
    """Tell whether what is wanted is a rescale of its own, and the job has not ended."""
    supervision, under_way = outcome.state.supervision, outcome.state.supervision.under_way
    is_followed = under_way is not None and not _differs(outcome.wanted, under_way.target)
    is_going_back = supervision.phase is SupervisionPhase.ROLLING_BACK
    return not (is_followed or is_going_back or request.context.status.is_terminal)


def _least(bound: LowerBound, wanted: Vector, current: RescaleRecord | None) -> dict[VertexId, int]:
    """Return the least parallelism that each vertex may get."""
    if bound is LowerBound.TARGET:
        return dict(wanted)
    if bound is LowerBound.ONE or current is None:
        return {}
    return {v: min(parallelism, current.before.get(v, parallelism)) for v, parallelism in wanted.items()}


def _running(outcome: PassOutcome, reading: JobReading) -> dict[VertexId, int]:
    if outcome.topology is not None:
        return {vertex_id: vertex.parallelism for vertex_id, vertex in outcome.topology.vertices.items()}
    return {v.vertex_id: v.parallelism for v in reading.details.vertices} if reading.details else {}


def _differs(wanted: Vector, running: Vector) -> bool:
    return any(running.get(vertex_id, parallelism) != parallelism for vertex_id, parallelism in wanted.items())
