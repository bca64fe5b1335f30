"""Tells people and machines what a pass came to: log lines when something changed, gauges and health always."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import structlog
from structlog.contextvars import bound_contextvars

from flink_autoscaler.core.error_boundary import ErrorBoundary
from flink_autoscaler.core.errors import AutoscalerError, NotReadyError, PluginError, StoreError
from flink_autoscaler.core.log_once import PERIOD, AlertTransition, LogOnce
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.numbers import plain
from flink_autoscaler.core.model.supervision import Origin
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import RealizeResult
from flink_autoscaler.core.ports.passes import EngineUse, PassOutcome
from flink_autoscaler.core.rescale.suspension import Suspension
from flink_autoscaler.core.rescale.tracking import WANTED_BEFORE, WANTED_BY_PERSON
from flink_autoscaler.standalone.daemon.pass_report import PassReport, job_facts, report_problems
from flink_autoscaler.standalone.observability.gauges import NO_ENGINE, Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.settings.secrets import mask_secrets
from flink_autoscaler.standalone.views.outcomes import names_of

log = structlog.get_logger(__name__)

MAX_CHANGES: Final = 5
"""A trouble that has changed more often within :data:`PERIOD` is told once per period only."""

MAX_REASONS: Final = 12
"""The same for the reasons of a job: a rescale alone takes some of them."""

_EVENTS: Final = {
    "cluster": ("cluster_failed", "cluster_recovered"),
    "list_gap": ("list_gap", "list_gap_closed"),
    "job": ("job_failed", "job_recovered"),
}
"""Log lines of a trouble and its end, by what is in trouble; those ending in ``_flapping`` and ``_settled`` besides."""

_GAP_EFFECT: Final = "no job of the cluster counts as gone until the whole list can be read"


_REASON_EVENTS: Final = {
    AlertTransition.RAISED: "job_reasons",
    AlertTransition.STABLE: "job_reasons_stable",
    AlertTransition.FLAPPING: "job_reasons_flapping",
}
"""Log lines of a job whose reasons are others; ``job_phase`` where its phase is another one, and nothing flaps."""


class EngineChanges:
    """Remembers where the jobs of each cluster are evaluated, so that a change is told once for all. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uses: dict[str, EngineUse] = {}

    def is_change(self, cluster: str, use: EngineUse) -> bool:
        """Take where a cluster is evaluated and why; tell whether no cluster was evaluated there so before."""
        with self._lock:
            is_news = use not in self._uses.values()
            self._uses[cluster] = use
            return is_news


class PassReporter:
    """Speaks for one cluster. Belongs to the thread of its passes.

    What lasts is said once: a cluster that does not answer is one warning, and one line when it is back. What changes
    again and again is said to flap, once and then every ten minutes, until it has settled.

    Args:
        gauges: Set after every pass.
        health: Told after every pass.
        engines: Shared by those who speak for other clusters.
        is_store_in_doubt: Tells whether the state store may be away, or was since an instant of ``time.monotonic``;
            that is said elsewhere, once for all jobs.
        tell_event: Takes events about the cluster.
    """

    def __init__(
        self,
        *,
        gauges: Gauges,
        health: Health,
        engines: EngineChanges | None = None,
        is_store_in_doubt: Callable[[float], bool] = lambda _: False,
        tell_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._tell_event = tell_event
        self._is_unreachable = False
        self._gauges = gauges
        self._health = health
        self._engines = engines or EngineChanges()
        self._is_store_in_doubt = is_store_in_doubt
        self._failing, self._gaps, self._failing_jobs = (LogOnce(MAX_CHANGES) for _ in range(3))
        self._reasons = LogOnce(MAX_REASONS)
        self._ids, self._phases, self._suspended, self._unreported = (LogOnce() for _ in range(4))

    def report(self, report: PassReport) -> None:
        """Log what is new, and set gauges and health."""
        with bound_contextvars(cluster=report.cluster):
            self._report_cluster(report.cluster, report.error)
            for context in report.removed_jobs:
                self._report_isolated(context.job_key, partial(self._report_removed, context))
            for job_key in report.deleted_states:
                log.info("job_state_deleted", job_key=job_key)
            if report.error is None:
                self._report_list(report)
                if report.is_acting:
                    self._report_jobs(report)
                else:
                    self._gauges.forget_jobs(report.cluster)
            use = report.engine
            if use is not None and report.is_acting and self._engines.is_change(report.cluster, use):
                log.info("passes_evaluated_on", engine=use.engine, reason=use.reason, jobs=len(report.jobs))
            engine = NO_ENGINE if use is None else use.engine
            log.debug("pass_finished", jobs=len(report.jobs), seconds=round(report.seconds, 3), engine=engine)
        self._gauges.record_pass(report.cluster, report.seconds, succeeded=report.error is None, engine=engine)

    def _report_cluster(self, cluster: str, error: AutoscalerError | None) -> None:
        if error is None:
            self._health.record_success(cluster)
        else:
            self._health.record_failure(cluster, str(error))
        transition = self._failing.update(cluster, "" if error is None else str(error))
        _log_transition("cluster", transition, error)
        if not isinstance(error, NotReadyError):
            self._emit_cluster_event(cluster, transition, error)

    def _emit_cluster_event(self, cluster: str, transition: AlertTransition, error: AutoscalerError | None) -> None:
        """Tell as an event that a cluster is away, is back, or comes and goes: another cause alone is none."""
        was_away, is_away = self._is_unreachable, error is not None
        if transition is AlertTransition.FLAPPING:
            text = f"cluster {cluster} comes and goes: {mask_secrets(str(error)) if error else 'it answers now'}"
            self._tell_event(Event(EventType.WARNING, "ClusterUnreachable", text))
        elif transition is not AlertTransition.NONE and is_away != was_away:
            self._is_unreachable = is_away
            if error is not None:
                text = f"cluster {cluster} does not answer: {mask_secrets(str(error))}"
                self._tell_event(Event(EventType.WARNING, "ClusterUnreachable", text))
            else:
                self._tell_event(Event(EventType.NORMAL, "ClusterRecovered", f"cluster {cluster} answers again"))

    def _report_list(self, report: PassReport) -> None:
        self._gauges.record_list(
            report.cluster,
            listed=len(report.jobs),
            unreadable=len(report.failures),
            stuck=report.unfinished_count,
            gaps=len(report.gaps),
        )
        for part in sorted(self._gaps.subjects() - report.gaps.keys()):
            _log_transition("list_gap", self._gaps.update(part, ""), None, {"part": part})
        for part, error in report.gaps.items():
            _log_transition(
                "list_gap", self._gaps.update(part, str(error)), error, {"part": part, "effect": _GAP_EFFECT}
            )

    def _report_jobs(self, report: PassReport) -> None:
        """Tell about the jobs; of those that another daemon manages, that one tells."""
        for context in report.jobs:
            self._report_isolated(context.job_key, partial(self._report_listed_job, context, report))
        keys = {context.job_key for context in report.jobs}
        for job_key in report.failures.keys() - keys:
            self._report_isolated(job_key, partial(self._report_unlisted_job, job_key, report))
        keys |= report.failures.keys()
        for known in (self._failing_jobs, self._reasons, self._ids, self._phases, self._suspended, self._unreported):
            known.keep_only(keys)

    def _report_isolated(self, job_key: JobKey, tell: Callable[[], None]) -> None:
        """Tell about one job; what a plug-in put into its outcome cannot keep the others from being told of."""
        with ErrorBoundary() as boundary:
            tell()
        if self._unreported.is_news(job_key, boundary.error) and boundary.error is not None:
            log.warning(
                "job_not_reported",
                job_key=job_key,
                error=str(boundary.error),
                exc_info=_foreign_cause((boundary.error,)),
            )

    def _report_removed(self, context: JobAutoScalerContext) -> None:
        self._gauges.forget_job(context.cluster, context.job_key)
        with bound_contextvars(**job_facts(context)):
            log.info("job_removed", job_id=context.job_id)

    def _report_listed_job(self, context: JobAutoScalerContext, report: PassReport) -> None:
        with bound_contextvars(**job_facts(context)):
            self._report_job(context, report)
            self._report_failure(context.job_key, report)

    def _report_unlisted_job(self, job_key: JobKey, report: PassReport) -> None:
        with bound_contextvars(job_key=job_key):
            self._report_failure(job_key, report)

    def _report_job(self, context: JobAutoScalerContext, of_pass: PassReport) -> None:
        self._gauges.record_identity(context)
        if self._ids.update(context.job_key, str(context.job_id)) is not AlertTransition.NONE:
            log.info("job_found", job_id=context.job_id, status=context.status.value)
        report = of_pass.reports.get(context.job_key)
        if report is None:
            return
        self._gauges.record_job(context.cluster, report)
        if report.realization is not None and report.realization.result is RealizeResult.REQUESTED:
            log.info("job_rescale_requested", **request_facts(report.outcome, report.realization.requested))
        self._report_suspension(context.job_key, report.suspensions)
        self._report_reasons(context.job_key, report.outcome)
        shown = replace(
            report, errors=tuple(each for each in report.errors if not self._is_reported_elsewhere(each, of_pass))
        )
        self._report_errors(context.job_key, "; ".join(report_problems(shown)), shown.errors)

    def _report_suspension(self, job_key: JobKey, reasons: Sequence[Suspension]) -> None:
        """Tell for what a job is suspended and until when, and that it is managed again, once each."""
        transition = self._suspended.update(job_key, "; ".join(each.text for each in reasons))
        if transition is AlertTransition.CLEARED:
            log.info("job_scaling_resumed")
        elif transition is AlertTransition.RAISED:
            for each in reasons:
                who = each.signed
                write = log.info if each.is_ordered else log.warning  # who ordered it need not be warned of it
                write("job_scaling_suspended", what=each.what, until=each.until, by=who.who, reason=who.reason)

    def _report_reasons(self, job_key: JobKey, outcome: PassOutcome) -> None:
        """Tell why the job is held or rescaled, whenever that is for other reasons than in the last pass."""
        is_phase_news = self._phases.update(job_key, outcome.phase) is not AlertTransition.NONE
        transition = self._reasons.update(job_key, reasons_identity(outcome))
        if transition is AlertTransition.NONE and not log.is_enabled_for(logging.DEBUG):
            return  # most passes, and their sentences would be made for nobody
        is_phase = transition is AlertTransition.NONE or (transition is AlertTransition.RAISED and is_phase_news)
        event = "job_phase" if is_phase else _REASON_EVENTS[transition]
        write = log.debug if transition is AlertTransition.NONE else log.info
        more = {"told_again_after": PERIOD} if transition is AlertTransition.FLAPPING else {}
        write(
            event,
            phase=outcome.phase.value,
            decision=outcome.decision.kind,
            reasons=reason_sentences(outcome),
            codes=reason_codes(outcome),
            **more,
        )

    def _report_failure(self, job_key: JobKey, report: PassReport) -> None:
        error = report.failures.get(job_key)
        if error is not None and not self._is_reported_elsewhere(error, report):
            self._report_errors(job_key, str(error), (error,))

    def _is_reported_elsewhere(self, error: AutoscalerError, report: PassReport) -> bool:
        """Tell whether an error is that of a database that was away while the pass ran, also if it is back now."""
        return isinstance(error, StoreError) and self._is_store_in_doubt(report.started_at)

    def _report_errors(self, job_key: JobKey, text: str, errors: Iterable[AutoscalerError]) -> None:
        _log_line(
            "job", self._failing_jobs.update(job_key, text), {"error": text or None, "exc_info": _foreign_cause(errors)}
        )


def _log_transition(
    subject: str, transition: AlertTransition, error: AutoscalerError | None, about: Mapping[str, str] | None = None
) -> None:
    """Tell about a trouble that is one error, or is over."""
    facts: dict[str, object] = {**(about or {})}
    if error is not None:
        facts |= {"error": str(error), "kind": type(error).__name__, "exc_info": _foreign_cause((error,))}
    _log_line(subject, transition, facts, is_expected=isinstance(error, NotReadyError))


def _log_line(
    subject: str, transition: AlertTransition, facts: Mapping[str, object], *, is_expected: bool = False
) -> None:
    """Write one line about what is new; a trouble that is expected to pass is nothing to warn of."""
    known = {name: fact for name, fact in facts.items() if fact is not None}
    write = log.info if is_expected or "error" not in known else log.warning
    began, ended = _EVENTS[subject]
    match transition:
        case AlertTransition.RAISED:
            write(began, **known)
        case AlertTransition.CLEARED:
            write(ended, **known)
        case AlertTransition.STABLE:
            write(f"{subject}_settled", **known)
        case AlertTransition.FLAPPING:
            log.warning(f"{subject}_flapping", told_again_after=PERIOD, **known)


def _foreign_cause(errors: Iterable[AutoscalerError]) -> BaseException | None:
    """Return what foreign code raised: only that is worth a traceback."""
    return next((error.__cause__ for error in errors if isinstance(error, PluginError)), None)


_DIGITS: Final = 6
"""Significant digits of a figure."""


def reasons_identity(outcome: PassOutcome) -> str:
    """Return what has to change for the reasons to be news: phase, decision, codes and their vertices.

    Texts and figures are left out: they are others in every pass.
    """
    codes = sorted({f"{reason.code} {reason.vertex_id or ''}" for reason in outcome.decision.reasons})
    return "; ".join((outcome.phase.value, outcome.decision.kind, *codes))


def reason_sentences(outcome: PassOutcome) -> list[str]:
    """Return the reasons as sentences, those about a vertex with its name in front."""
    names = names_of(outcome)
    return [
        reason.text if reason.vertex_id is None else f"{names.get(reason.vertex_id, reason.vertex_id)}: {reason.text}"
        for reason in outcome.decision.reasons
    ]


def reason_codes(outcome: PassOutcome) -> list[dict[str, object]]:
    """Return one entry per reason: ``code``, ``vertex`` where it is about one, and its figures by name."""
    names = names_of(outcome)
    return [dict(_reason_fields(reason, names)) for reason in outcome.decision.reasons]


def request_facts(outcome: PassOutcome, requested: Mapping[VertexId, int]) -> dict[str, object]:
    """Return what a request for another parallelism is about, for people and for programs.

    Returns:
        ``text`` such as ``work 4 → 7``, ``cause`` (see :func:`request_cause`), ``changes`` with one entry per vertex
        that
        gets another parallelism (``vertex``, ``vertex_id``, ``from``, null where not known, and ``to``), and
        ``parallelism``, everything that was asked for by vertex id.
    """
    names, before = names_of(outcome), _parallelism_before(outcome)
    changes = [
        {"vertex": names.get(v, v), "vertex_id": v, "from": before.get(v), "to": parallelism}
        for v, parallelism in requested.items()
        if before.get(v) != parallelism
    ]
    text = ", ".join(f"{each['vertex']} {_format_parallelism(each['from'])} → {each['to']}" for each in changes)
    return {
        "cause": request_cause(outcome),
        "text": text or "the same parallelism with other bounds",
        "changes": changes,
        "parallelism": dict(requested),
    }


def request_cause(outcome: PassOutcome) -> str:
    """Return why another parallelism is asked for.

    Returns:
        ``load``, ``plan`` for a scheduled time, ``share`` for slots that other jobs need, ``pin``, ``order`` for what
        a person ordered besides, ``rollback``, or ``earlier`` where something that was decided or set before is asked
        for again.
    """
    current = outcome.state.supervision.current
    origin = None if current is None else current.origin
    if outcome.target.is_repair or origin is Origin.ROLLBACK:
        return "rollback"
    if isinstance(outcome.decision, Rescale):
        return "plan" if any(reason.code == "PLANNED" for reason in outcome.decision.reasons) else "load"
    if any(reason.code == "GIVES_SLOTS" for reason in outcome.decision.reasons):
        return "share"
    if current is None or origin is Origin.AUTOSCALER:
        return "earlier"
    return {WANTED_BY_PERSON: "pin", WANTED_BEFORE: "earlier"}.get(current.reason, "order")


def _parallelism_before(outcome: PassOutcome) -> Mapping[VertexId, int]:
    """Return the parallelism before: as it runs, or as the rescale that is followed found it."""
    current = outcome.state.supervision.current
    running = outcome.observation.vertices
    return {
        **({} if current is None else current.before),
        **{vertex_id: vertex.parallelism for vertex_id, vertex in running.items()},
    }


def _format_parallelism(parallelism: object) -> str:
    return "?" if parallelism is None else str(parallelism)


def _reason_fields(reason: Reason, names: Mapping[VertexId, str]) -> Iterator[tuple[str, object]]:
    yield "code", reason.code
    if reason.vertex_id is not None:
        yield "vertex", names.get(reason.vertex_id, reason.vertex_id)
    for name, value in reason.figures:
        yield name, _json_number(value)


def _json_number(value: float) -> float | str | None:
    """Make a number that any JSON parser reads: unknown is null, an infinity is its name."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return plain(value)
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded
