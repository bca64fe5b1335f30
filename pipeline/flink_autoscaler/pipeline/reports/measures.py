"""What a report says about each job: slot-hours, minutes too late, rescales, and whether it needs a person."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

Row = Mapping[str, Any]

FEWEST_PASSES: Final = 5
"""With fewer passes nothing can be said about a job, and lines in charts would be made up."""

TALKERS: Final = 10

_HOUR: Final = 3600.0
_SILENT: Final = 3600.0
_LIMITED_SHARE: Final = 0.05
_BLIND_SHARE: Final = 0.2
_BLIND: Final = ("not_ready", "error", "invalid_config")
_ENDED: Final = ("FINISHED", "CANCELED", "RUNNING", None)
_PAUSE_CODES: Final = ("PAUSED_AFTER_ROLLBACK", "ROLLING_BACK")


@dataclass(frozen=True, slots=True)
class Concern:
    """Why a person should look at a job.

    Attributes:
        kind: One or two words, such as ``paused``.
        text: What is known about it.
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ShadowFigures:
    """What a policy in shadow mode wanted, each time for the job as it was.

    Attributes:
        policy: Its name.
        passes: In which it had an opinion; the figures are of these.
        held: Slots of the job, on average.
        wanted: Slots that it would have given the job then, on average.
        up: Passes in which it wanted more slots than there were.
        down: Passes in which it wanted fewer.
        silent: Passes in which it had no opinion.
    """

    policy: str
    passes: int
    held: float | None
    wanted: float | None
    up: int
    down: int
    silent: int

    @classmethod
    def of(cls, row: Row) -> ShadowFigures | None:
        """Return the figures of a row of ``aggregate.job_shadows``; None for an empty one."""
        if not row:
            return None
        names = ("policy", "passes", "held", "wanted", "up", "down", "silent")
        return cls(**{name: row[name] for name in names})


@dataclass(frozen=True, slots=True)
class JobFigures:
    """One job over the period; None is not known.

    Attributes:
        passes: Over the job that the history has.
        first: Epoch seconds of the first of them.
        last: Epoch seconds of the last of them.
        status: Of the last of them, such as ``RUNNING``.
        slot_hours: Slots held, times hours; gaps in the history do not count.
        static_hours: The same for as many slots all the time as it ever held.
        peak: Most slots that it held.
        load: Records/s that arrived on average.
        lag_seconds: Greatest age of records that waited.
        late_minutes: With more lag than allowed.
        rescales: That settled.
        outage: Seconds during which rescales kept it from running.
        reverted: Rescales that were rolled back.
        failed: Rescales that were refused, or reached in part.
        concerns: Why it needs a person; empty when it does not.
        shadow: What its last policy in shadow mode wanted; None where none was asked.
    """

    job_key: str
    cluster: str
    passes: int
    first: float | None = None
    last: float | None = None
    status: str | None = None
    slot_hours: float | None = None
    static_hours: float | None = None
    peak: int | None = None
    load: float | None = None
    lag_seconds: float | None = None
    late_minutes: float | None = None
    rescales: int = 0
    outage: float = 0.0
    reverted: int = 0
    failed: int = 0
    concerns: tuple[Concern, ...] = ()
    shadow: ShadowFigures | None = None

    @property
    def saved_share(self) -> float | None:
        """Share of the static peak that was not used, 0..1."""
        return _saved(self.slot_hours, self.static_hours)

    @property
    def is_too_short(self) -> bool:
        """Whether there are too few passes for charts."""
        return self.passes < FEWEST_PASSES


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over jobs; None where no job knows its part.

    Attributes:
        unknown: Jobs whose lag is not known, and whose minutes too late are missing.
    """

    jobs: int
    slot_hours: float | None
    static_hours: float | None
    late_minutes: float | None
    rescales: int
    outage: float
    failed: int
    concerned: int
    unknown: int

    @property
    def saved_share(self) -> float | None:
        """Share of the static peak that was not used, 0..1."""
        return _saved(self.slot_hours, self.static_hours)


def job_figures(job_key: str, totals: Row, decisions: Row, rescales: Row, *, until: float) -> JobFigures:
    """Work out the figures of a job over a period that ends at an instant.

    The rows are what ``aggregate`` returns about the job; empty where a table has none.
    """
    latest = decisions.get("latest") or {}
    lasts = [row["last"] for row in (totals, decisions) if row.get("last") is not None]
    firsts = [row["first"] for row in (totals, decisions) if row.get("first") is not None]
    last = max(lasts, default=None)
    clusters = (row.get("cluster") for row in (totals, decisions, rescales))
    return JobFigures(
        job_key=job_key,
        cluster=next((name for name in clusters if name), ""),
        passes=max(totals.get("passes") or 0, decisions.get("passes") or 0),
        first=min(firsts, default=None),
        last=last,
        status=latest.get("status"),
        slot_hours=_over(totals.get("slot_seconds"), _HOUR),
        static_hours=_static(totals),
        peak=totals.get("peak"),
        load=totals.get("load"),
        lag_seconds=totals.get("lag_seconds"),
        late_minutes=_over(totals.get("late") or 0.0, 60.0) if totals.get("lag_known") else None,
        rescales=rescales.get("rescales") or 0,
        outage=rescales.get("outage") or 0.0,
        reverted=rescales.get("reverted") or 0,
        failed=rescales.get("failed") or 0,
        concerns=(*_trust(latest), *_undone(rescales), *_limits(decisions), *_sight(decisions, latest, last, until)),
    )


def _saved(used: float | None, static: float | None) -> float | None:
    return None if used is None or not static else 1.0 - used / static


def _over(value: float | None, unit: float) -> float | None:
    return None if value is None or not math.isfinite(value) else value / unit


def _static(totals: Row) -> float | None:
    peak, known = totals.get("peak"), totals.get("slot_known")
    return None if peak is None or known is None else peak * known / _HOUR


def _trust(latest: Row) -> Iterable[Concern]:
    """Tell whether the job is left alone, or is being brought back."""
    supervision = latest.get("supervision")
    if supervision not in ("paused", "rolling back"):
        return
    texts = (reason["text"] for reason in latest.get("reasons") or () if reason["code"] in _PAUSE_CODES)
    yield Concern(supervision, next(filter(None, texts), "since a rollback"))


def _undone(rescales: Row) -> Iterable[Concern]:
    for kind, name, last in (("rolled back", "reverted", "revert"), ("failed", "failed", "failure")):
        if count := rescales.get(name):
            told = rescales.get(last) or {}
            at = "" if told.get("at") is None else f", the last one on {instant(told['at'])}"
            why = f": {told['reason']}" if told.get("reason") else ""
            yield Concern(kind, f"{count} rescale{'s' if count > 1 else ''}{at}{why}")


def _limits(decisions: Row) -> Iterable[Concern]:
    passes, limited = decisions.get("passes") or 0, decisions.get("limited") or 0
    if passes and limited / passes >= _LIMITED_SHARE:
        yield Concern("limited", f"in {limited / passes:.0%} of the passes: {decisions.get('limit')}")


def _sight(decisions: Row, latest: Row, last: float | None, until: float) -> Iterable[Concern]:
    """Tell whether the job can be seen."""
    passes, blind = decisions.get("passes") or 0, decisions.get("blind") or 0
    is_blind_now = latest.get("phase") in _BLIND
    if passes and (is_blind_now or blind / passes >= _BLIND_SHARE):
        yield Concern("no metrics", f"in {blind / passes:.0%} of the passes{_why(latest) if is_blind_now else ''}")
    if latest.get("status") not in _ENDED:
        yield Concern("not running", f"its status is {latest['status']}")
    if last is not None and until - last > _SILENT and latest.get("status") in ("RUNNING", None):
        yield Concern("not seen", f"the history has nothing about it since {instant(last)}")


def _why(latest: Row) -> str:
    texts = [latest.get("error"), *(reason["text"] for reason in latest.get("reasons") or ())]
    return next((f"; now: {text}" for text in texts if text), "")


def instant(at: float) -> str:
    """Write an instant for people, such as ``2026-01-31 12:00 UTC``."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def totals_of(jobs: Sequence[JobFigures]) -> Totals:
    """Sum up jobs."""
    return Totals(
        jobs=len(jobs),
        slot_hours=_sum(job.slot_hours for job in jobs),
        static_hours=_sum(job.static_hours for job in jobs),
        late_minutes=_sum(job.late_minutes for job in jobs),
        rescales=sum(job.rescales for job in jobs),
        outage=math.fsum(job.outage for job in jobs),
        failed=sum(job.failed + job.reverted for job in jobs),
        concerned=sum(bool(job.concerns) for job in jobs),
        unknown=sum(job.late_minutes is None for job in jobs),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


TALK: Final[Mapping[str, str]] = {
    "slot_hours": "Slot-hours",
    "load": "Records/s arriving",
    "rescales": "Rescales",
    "outage": "Outages, s",
    "late_minutes": "Minutes too late",
}
"""What top talkers are looked for by, and its title."""


def top_talkers(jobs: Sequence[JobFigures]) -> Mapping[str, Sequence[JobFigures]]:
    """Return by every figure of ``TALK`` the ten jobs with the most of it, the greatest first; none without any."""
    return {
        name: sorted(
            (job for job in jobs if (getattr(job, name) or 0) > 0),
            key=lambda job: (-getattr(job, name), job.job_key),
        )[:TALKERS]
        for name in TALK
    }


def chosen(jobs: Sequence[JobFigures], most: int) -> Sequence[JobFigures]:
    """Return the jobs that get a section when there are too many: those that need a person, then the largest."""
    ranked = sorted(jobs, key=lambda job: (not job.concerns, -(job.slot_hours or 0.0), job.job_key))
    return sorted(ranked[:most], key=lambda job: job.job_key)
