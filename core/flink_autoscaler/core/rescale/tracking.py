"""Where following rescales meets the pass over a job: before it decides, and after it has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from flink_autoscaler.core.memoize import memoize_last
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
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.observe.conversion import convert_globals
from flink_autoscaler.core.observe.required_facts import RequiredFacts, required_facts
from flink_autoscaler.core.options.safety import LowerBound
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.core.ports.plugins import Plugins, UnrecoverableErrorChecker
from flink_autoscaler.core.rescale.error_checkers import CHECKERS, GC, HEAP
from flink_autoscaler.core.rescale.following import Tracking, follow, is_repairing
from flink_autoscaler.core.rescale.operator_commands import apply_unfollowed
from flink_autoscaler.core.rescale.probation import before_rescale
from flink_autoscaler.core.rescale.transition import SupervisionInput, start_rescale

_CLOCKS_APART_MS: Final = 100 * 366 * 86_400_000
"""No two clocks that show a date of our time are further apart."""

WANTED_BY_PERSON: Final = "wanted by a person"
WANTED_BEFORE: Final = "decided earlier or set by the user"
GIVEN_TO_OTHERS: Final = "gives slots to jobs that have too few"
"""Why a rescale is done that no decision of this pass asked for: a pin, or what was known before."""

_PRESSURE = {GC: ScalingMetric.GC_PRESSURE, HEAP: ScalingMetric.HEAP_MAX_USAGE_RATIO}


def track_before(request: PassRequest, reading: JobReading, cluster: ClusterReading, plugins: Plugins) -> Tracking:
    """Follow the rescale of a job where something was asked about it; what could not be read changes nothing."""
    supervision = request.state.supervision
    if not request.context.options.supervises_rescales:
        return _track_orders_only(request, reading)
    if required_facts(request) is RequiredFacts.NOTHING:
        return Tracking(request.state)
    # Something was to be read and was not: nothing is concluded from that, and nobody's change is overwritten.
    if reading.facts is None:
        is_blind = bool(supervision.seen) and supervision.phase is not SupervisionPhase.ROLLING_BACK
        return Tracking(request.state, is_repair=is_repairing(supervision), requirements_unknown=is_blind)
    # Only for texts: a job whose details were not read is followed by the ids of its vertices.
    names = {v.vertex_id: v.name for v in reading.details.vertices} if reading.details else {}
    checkers = _checkers(plugins.error_checkers)
    return follow(SupervisionInput(request, _facts(reading, request), checkers, pressure(cluster), names))


@memoize_last
def _checkers(plugins: Mapping[str, UnrecoverableErrorChecker]) -> Mapping[str, UnrecoverableErrorChecker]:
    return {**CHECKERS, **plugins}


def _track_orders_only(request: PassRequest, reading: JobReading) -> Tracking:
    """Carry out what people ordered about a job whose rescales are not followed."""
    if not request.orders.has_single:
        return Tracking(request.state)
    done = apply_unfollowed(request.state, SupervisionInput(request, _facts(reading, request)))
    return Tracking(done.state, done.events, done.holds)


@memoize_last
def pressure(cluster: ClusterReading) -> Mapping[str, float]:
    """Return garbage collection and heap usage of the fullest TaskManager, where known."""
    values = convert_globals(cluster, reports_gc=bool(cluster.taskmanagers))
    known = {name: values.get(metric, NAN) for name, metric in _PRESSURE.items()}
    return {name: value for name, value in known.items() if math.isfinite(value)}


@value
class DesiredState:
    """What a pass wants of a job.

    Attributes:
        wanted: Parallelism by vertex; empty where nothing is wanted.
        running: Parallelism by vertex as the job runs now; empty where that is not known.
        is_decided: Whether this pass decided it.
        is_repair: Whether it undoes a rescale that the job does not survive, so that the job need not run.
        releases_slots: Whether the job gives slots to others.
    """

    wanted: Vector
    running: Vector
    is_decided: bool
    is_repair: bool = False
    releases_slots: bool = False

    @property
    def is_other_than_running(self) -> bool:
        """Whether some vertex that runs is to get another parallelism."""
        return _differs(self.wanted, self.running)


@value
class TrackingUpdate:
    """What is remembered of what a pass wants, and how it is to be realized.

    Attributes:
        min_parallelism: Least parallelism that the cluster may give; 1 where it is not said.
        found_requirements: Resource requirements of the job in this pass; None where they are not known.
    """

    supervision: Supervision
    min_parallelism: Vector = field(default_factory=dict)
    found_requirements: Requirements | None = None


def track_after(
    wants: DesiredState, supervision: Supervision, request: PassRequest, reading: JobReading, cluster: ClusterReading
) -> TrackingUpdate:
    """Begin to follow what a pass wants, where that is new: a decision, a pin, or an override of the user's."""
    options, wanted, running = request.context.options, wants.wanted, wants.running
    if not options.supervises_rescales or request.context.job_id is None or not wanted:
        return TrackingUpdate(supervision)
    if running and _is_new(wants, supervision, request) and _may_begin(wanted, supervision, request):
        origin = Origin.AUTOSCALER if wants.is_decided or wants.releases_slots else Origin.OPERATOR
        # Of all vertices that run: the cluster takes requirements as a whole, and what is not named stays.
        target = {vertex_id: wanted.get(vertex_id, parallelism) for vertex_id, parallelism in running.items()}
        given = SupervisionInput(request, _facts(reading, request))
        supervision = start_rescale(supervision, given, running, target, origin, _why(origin, request, wants))
        raised = [vertex_id for vertex_id, parallelism in target.items() if parallelism > running[vertex_id]]
        # Before the request is sent: afterwards the cluster shows what the rescale has made of it.
        baseline = {**pressure(cluster), **before_rescale(request.state.samples, raised)}
        supervision = replace(supervision, baseline=baseline)
        # What the job ran with before anything was asked of it is the last resort of a rollback.
        if not supervision.initial:
            supervision = replace(supervision, initial=running, last_stable=running)
    found = reading.facts.requirements if reading.facts else None
    # Remembered before it is sent, so that a crash in between shows as a request of ours and not as a foreign edit.
    if _is_request_due(wants, request, supervision, found):
        supervision = replace(supervision, asked=dict(wanted))
    return TrackingUpdate(supervision, _minimum_parallelism(options.lower_bound, wanted, supervision.current), found)


def _is_new(wants: DesiredState, supervision: Supervision, request: PassRequest) -> bool:
    """Tell whether something else is wanted than before."""
    # What was decided before anything was followed is only taken note of.
    is_known = bool(supervision.asked or supervision.past or request.orders.pins)
    is_changed = dict(wants.wanted) != dict(supervision.asked) and wants.is_other_than_running
    return wants.is_decided or wants.releases_slots or (is_known and is_changed)


def _is_request_due(
    wants: DesiredState, request: PassRequest, supervision: Supervision, found: Requirements | None
) -> bool:
    """Tell whether what is wanted can be asked for in this pass, or has been: else it is new to the pass that does."""
    is_sent = request.context.status is JobStatus.RUNNING or wants.is_repair or supervision.under_way is not None
    if is_sent or found is None:
        return is_sent
    return not _differs(wants.wanted, {vertex_id: upper for vertex_id, (_, upper) in found.items()})


def _why(origin: Origin, request: PassRequest, wants: DesiredState) -> str:
    if wants.releases_slots:
        return GIVEN_TO_OTHERS
    if origin is Origin.AUTOSCALER:
        return "decided by load"
    return WANTED_BY_PERSON if request.orders.pins else WANTED_BEFORE


def _facts(reading: JobReading, request: PassRequest) -> RescaleFacts:
    """Return what was asked about the rescale; nothing but the clock of the JobManager where nothing was.

    A clock that cannot be is unknown: a rescale that began in the year 40000 would never be followed to its end.
    """
    facts = reading.facts or RescaleFacts(now_ms=reading.details.now_ms if reading.details else None)
    if facts.now_ms is None or abs(facts.now_ms - request.now_ms) <= _CLOCKS_APART_MS:
        return facts
    return replace(facts, now_ms=None)


def _may_begin(wanted: Vector, supervision: Supervision, request: PassRequest) -> bool:
    """Tell whether what is wanted is a rescale of its own, and the job has not ended."""
    # Asking again for what is under way would begin its timers anew in every pass.
    under_way = supervision.under_way
    is_followed = under_way is not None and not _differs(wanted, under_way.target)
    is_going_back = supervision.phase is SupervisionPhase.ROLLING_BACK
    return not (is_followed or is_going_back or request.context.status.is_terminal)


def _minimum_parallelism(bound: LowerBound, wanted: Vector, current: RescaleRecord | None) -> dict[VertexId, int]:
    """Return the least parallelism that each vertex may get."""
    if bound is LowerBound.TARGET:
        return dict(wanted)
    if bound is LowerBound.ONE or current is None:
        return {}
    return {v: min(parallelism, current.before.get(v, parallelism)) for v, parallelism in wanted.items()}


def _differs(wanted: Vector, running: Vector) -> bool:
    return any(running.get(vertex_id, parallelism) != parallelism for vertex_id, parallelism in wanted.items())
