"""Tells people and machines what a pass came to: log lines when something changed, gauges and health always."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from typing import Final

import structlog
from structlog.contextvars import bound_contextvars

from flink_autoscaler.core.border import Border, ToldOnce
from flink_autoscaler.core.errors import AutoscalerError, NotReadyError, PluginError, StoreError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import RealizeResult
from flink_autoscaler.core.ports.passes import EngineUse, PassOutcome
from flink_autoscaler.core.supervise.left_alone import LeftAlone
from flink_autoscaler.standalone.daemon.cluster_pass import PassReport, problems
from flink_autoscaler.standalone.daemon.completion import job_facts
from flink_autoscaler.standalone.observability.gauges import NO_ENGINE, Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.reasons import codes, identity_of, request_facts, sentences
from flink_autoscaler.standalone.settings.secrets import masked
from flink_autoscaler.standalone.views.outcomes import decision_of

log = structlog.get_logger(__name__)

MOST_CHANGES: Final = 5
PERIOD: Final = 600.0
"""A trouble that has changed more than so often within so many seconds is told once per period only."""

MOST_REASONS: Final = 12
"""The same for the reasons of a job: a rescale alone takes some of them."""

_EVENTS: Final = {
    "cluster": ("cluster_failed", "cluster_recovered"),
    "list_gap": ("list_gap", "list_gap_closed"),
    "job": ("job_failed", "job_recovered"),
}
"""Log lines of a trouble and its end, by what is in trouble; those ending in ``_flapping`` and ``_settled`` besides."""

_GAP_EFFECT: Final = "no job of the cluster counts as gone until the whole list can be read"


class News(Enum):
    """What is to be told about a trouble."""

    NOTHING = auto()
    BEGAN = auto()
    """There is one, or it is another one than before."""
    ENDED = auto()
    FLAPS = auto()
    """It changes so often that single changes are not told any more."""
    SETTLED = auto()
    """It does not flap any more: what it is now lasts."""


_REASON_EVENTS: Final = {
    News.BEGAN: "job_reasons",
    News.SETTLED: "job_reasons_settled",
    News.FLAPS: "job_reasons_flapping",
}
"""Log lines of a job whose reasons are others; ``job_phase`` where its phase is another one, and nothing flaps."""


@dataclass(slots=True)
class _Trouble:
    """One subject: its present text, when it changed lately, and when it was last told that it flaps."""

    text: str = ""
    changed_at: deque[float] = field(default_factory=deque)
    told_at: float | None = None


class Troubles:
    """What is wrong, by subject. Belongs to one thread.

    Args:
        most: Changes within a period from which on a subject flaps, if there is one more.
        clock: Seconds that never go back.
    """

    def __init__(self, *, most: int = MOST_CHANGES, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._troubles: dict[str, _Trouble] = {}

    def take(self, subject: str, text: str) -> News:
        """Take what is wrong with a subject now, an empty text when nothing is, and return what is to be told."""
        if not text and subject not in self._troubles:
            return News.NOTHING
        trouble = self._troubles.setdefault(subject, _Trouble(changed_at=deque(maxlen=self._most + 1)))
        has_changed = trouble.text != text
        if has_changed:
            trouble.text = text
            trouble.changed_at.append(self._clock())
        news = self._news(trouble, has_changed=has_changed)
        # Once the last change is so long ago that none of them counts any more.
        if not text and trouble.told_at is None and self._clock() - trouble.changed_at[-1] >= PERIOD:
            del self._troubles[subject]
        return news

    def subjects(self) -> frozenset[str]:
        """Return all subjects that are remembered: in trouble, or lately so."""
        return frozenset(self._troubles)

    def keep_only(self, subjects: Collection[str]) -> None:
        """Forget all other subjects."""
        self._troubles = {subject: trouble for subject, trouble in self._troubles.items() if subject in subjects}

    def _news(self, trouble: _Trouble, *, has_changed: bool) -> News:
        now, changed_at = self._clock(), trouble.changed_at
        if len(changed_at) <= self._most or now - changed_at[0] >= PERIOD:
            if trouble.told_at is not None:
                trouble.told_at = None
                return News.SETTLED
            return (News.BEGAN if trouble.text else News.ENDED) if has_changed else News.NOTHING
        if not has_changed or (trouble.told_at is not None and now - trouble.told_at < PERIOD):
            return News.NOTHING
        trouble.told_at = now
        return News.FLAPS


class EngineNews:
    """Remembers where the jobs of each cluster are evaluated, so that a change is told once for all. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uses: dict[str, EngineUse] = {}

    def is_news(self, cluster: str, use: EngineUse) -> bool:
        """Take where a cluster is evaluated and why; tell whether no cluster was evaluated there so before."""
        with self._lock:
            is_news = use not in self._uses.values()
            self._uses[cluster] = use
            return is_news


class Announcer:
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
        engines: EngineNews | None = None,
        is_store_in_doubt: Callable[[float], bool] = lambda _: False,
        tell_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._tell_event = tell_event
        self._is_away = False
        self._gauges = gauges
        self._health = health
        self._engines = engines or EngineNews()
        self._is_store_in_doubt = is_store_in_doubt
        self._told: dict[tuple[str, JobKey], str] = {}
        self._failing, self._failing_jobs, self._gaps = Troubles(), Troubles(), Troubles()
        self._reasons = Troubles(most=MOST_REASONS)
        self._untold = ToldOnce()

    def announce(self, report: PassReport) -> None:
        """Log what is new, and set gauges and health."""
        with bound_contextvars(cluster=report.cluster):
            self._announce_cluster(report.cluster, report.error)
            for context in report.gone:
                self._beside(context.job_key, partial(self._announce_gone, context))
            for job_key in report.deleted:
                log.info("job_state_deleted", job_key=job_key)
            if report.error is None:
                self._announce_list(report)
                if report.is_acting:
                    self._announce_jobs(report)
                else:
                    self._gauges.forget_jobs(report.cluster)
            use = report.engine
            if use is not None and report.is_acting and self._engines.is_news(report.cluster, use):
                log.info("passes_evaluated_on", engine=use.engine, reason=use.reason, jobs=len(report.jobs))
            engine = NO_ENGINE if use is None else use.engine
            log.debug("pass_finished", jobs=len(report.jobs), seconds=round(report.seconds, 3), engine=engine)
        self._gauges.record_pass(report.cluster, report.seconds, succeeded=report.error is None, engine=engine)

    def _announce_cluster(self, cluster: str, error: AutoscalerError | None) -> None:
        if error is None:
            self._health.succeeded(cluster)
        else:
            self._health.failed(cluster, str(error))
        news = self._failing.take(cluster, "" if error is None else str(error))
        _tell("cluster", news, error)
        if not isinstance(error, NotReadyError):
            self._tell_of_cluster(cluster, news, error)

    def _tell_of_cluster(self, cluster: str, news: News, error: AutoscalerError | None) -> None:
        """Tell as an event that a cluster is away, is back, or comes and goes: another cause alone is none."""
        was_away, is_away = self._is_away, error is not None
        if news is News.FLAPS:
            text = f"cluster {cluster} comes and goes: {masked(str(error)) if error else 'it answers now'}"
            self._tell_event(Event(EventType.WARNING, "ClusterUnreachable", text))
        elif news is not News.NOTHING and is_away != was_away:
            self._is_away = is_away
            if error is not None:
                text = f"cluster {cluster} does not answer: {masked(str(error))}"
                self._tell_event(Event(EventType.WARNING, "ClusterUnreachable", text))
            else:
                self._tell_event(Event(EventType.NORMAL, "ClusterRecovered", f"cluster {cluster} answers again"))

    def _announce_list(self, report: PassReport) -> None:
        self._gauges.record_list(
            report.cluster,
            listed=len(report.jobs),
            unreadable=len(report.failures),
            stuck=report.stuck,
            gaps=len(report.gaps),
        )
        for part in sorted(self._gaps.subjects() - report.gaps.keys()):
            _tell("list_gap", self._gaps.take(part, ""), None, {"part": part})
        for part, error in report.gaps.items():
            _tell("list_gap", self._gaps.take(part, str(error)), error, {"part": part, "effect": _GAP_EFFECT})

    def _announce_jobs(self, report: PassReport) -> None:
        """Tell about the jobs; of those that another daemon looks after, that one tells."""
        for context in report.jobs:
            self._beside(context.job_key, partial(self._announce_listed, context, report))
        keys = {context.job_key for context in report.jobs}
        for job_key in report.failures.keys() - keys:
            self._beside(job_key, partial(self._announce_unlisted, job_key, report))
        keys |= report.failures.keys()
        self._told = {about: text for about, text in self._told.items() if about[1] in keys}
        self._failing_jobs.keep_only(keys)
        self._reasons.keep_only(keys)

    def _beside(self, job_key: JobKey, tell: Callable[[], None]) -> None:
        """Tell about one job; what a plug-in put into its outcome cannot keep the others from being told of."""
        with Border() as border:
            tell()
        if self._untold.is_news(job_key, border.error) and border.error is not None:
            log.warning("job_not_told", job_key=job_key, error=str(border.error), exc_info=_surprise((border.error,)))

    def _announce_gone(self, context: JobAutoScalerContext) -> None:
        self._gauges.forget_job(context.cluster, context.job_key)
        with bound_contextvars(**job_facts(context)):
            log.info("job_gone", job_id=context.job_id)

    def _announce_listed(self, context: JobAutoScalerContext, report: PassReport) -> None:
        with bound_contextvars(**job_facts(context)):
            self._announce_job(context, report)
            self._announce_failure(context.job_key, report)

    def _announce_unlisted(self, job_key: JobKey, report: PassReport) -> None:
        with bound_contextvars(job_key=job_key):
            self._announce_failure(job_key, report)

    def _announce_job(self, context: JobAutoScalerContext, of_pass: PassReport) -> None:
        self._gauges.record_identity(context)
        if self._is_news("job", context.job_key, str(context.job_id)):
            log.info("job_found", job_id=context.job_id, status=context.status.value)
        report = of_pass.reports.get(context.job_key)
        if report is None:
            return
        self._gauges.record_job(context.cluster, report)
        if report.realization is not None and report.realization.result is RealizeResult.REQUESTED:
            log.info("job_rescale_requested", **request_facts(report.outcome, report.realization.requested))
        self._announce_left_alone(context.job_key, report.left_alone)
        self._announce_reasons(context.job_key, report.outcome)
        shown = replace(
            report, errors=tuple(each for each in report.errors if not self._is_said_elsewhere(each, of_pass))
        )
        self._announce_errors(context.job_key, "; ".join(problems(shown)), shown.errors)

    def _announce_left_alone(self, job_key: JobKey, reasons: Sequence[LeftAlone]) -> None:
        """Tell for what a job is left alone and until when, and that it is looked after again, once each."""
        was_alone = bool(self._told.get(("left alone", job_key)))
        if not self._is_news("left alone", job_key, "; ".join(each.text for each in reasons)):
            return
        for each in reasons:
            who = each.signed
            write = log.info if each.is_ordered else log.warning  # who ordered it need not be warned of it
            write("job_left_alone", what=each.what, until=each.until, by=who.who, reason=who.reason)
        if was_alone and not reasons:
            log.info("job_looked_after_again")

    def _announce_reasons(self, job_key: JobKey, outcome: PassOutcome) -> None:
        """Tell why the job is left alone or rescaled, whenever that is for other reasons than in the last pass."""
        is_phase_news = self._is_news("phase", job_key, outcome.phase)
        news = self._reasons.take(job_key, identity_of(outcome))
        if news is News.NOTHING and not log.is_enabled_for(logging.DEBUG):
            return  # most passes, and their sentences would be made for nobody
        is_phase = news is News.NOTHING or (news is News.BEGAN and is_phase_news)
        event = "job_phase" if is_phase else _REASON_EVENTS[news]
        write = log.debug if news is News.NOTHING else log.info
        more = {"told_again_after": PERIOD} if news is News.FLAPS else {}
        write(
            event,
            phase=outcome.phase.value,
            decision=decision_of(outcome),
            reasons=sentences(outcome),
            codes=codes(outcome),
            **more,
        )

    def _is_news(self, kind: str, job_key: JobKey, text: str) -> bool:
        """Tell whether a text about a job differs from the last one of its kind, and remember it."""
        before = self._told.get((kind, job_key))
        self._told[kind, job_key] = text
        return before != text

    def _announce_failure(self, job_key: JobKey, report: PassReport) -> None:
        error = report.failures.get(job_key)
        if error is not None and not self._is_said_elsewhere(error, report):
            self._announce_errors(job_key, str(error), (error,))

    def _is_said_elsewhere(self, error: AutoscalerError, report: PassReport) -> bool:
        """Tell whether an error is that of a database that was away while the pass ran, also if it is back now."""
        return isinstance(error, StoreError) and self._is_store_in_doubt(report.began)

    def _announce_errors(self, job_key: JobKey, text: str, errors: Iterable[AutoscalerError]) -> None:
        _write("job", self._failing_jobs.take(job_key, text), {"error": text or None, "exc_info": _surprise(errors)})


def _tell(subject: str, news: News, error: AutoscalerError | None, about: Mapping[str, str] | None = None) -> None:
    """Tell about a trouble that is one error, or is over."""
    facts: dict[str, object] = {**(about or {})}
    if error is not None:
        facts |= {"error": str(error), "kind": type(error).__name__, "exc_info": _surprise((error,))}
    _write(subject, news, facts, is_expected=isinstance(error, NotReadyError))


def _write(subject: str, news: News, facts: Mapping[str, object], *, is_expected: bool = False) -> None:
    """Write one line about what is new; a trouble that is expected to pass is nothing to warn of."""
    known = {name: fact for name, fact in facts.items() if fact is not None}
    write = log.info if is_expected or "error" not in known else log.warning
    began, ended = _EVENTS[subject]
    match news:
        case News.BEGAN:
            write(began, **known)
        case News.ENDED:
            write(ended, **known)
        case News.SETTLED:
            write(f"{subject}_settled", **known)
        case News.FLAPS:
            log.warning(f"{subject}_flapping", told_again_after=PERIOD, **known)


def _surprise(errors: Iterable[AutoscalerError]) -> BaseException | None:
    """Return what foreign code raised: only that is worth a traceback."""
    return next((error.__cause__ for error in errors if isinstance(error, PluginError)), None)
