"""An explanation as text for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.numbers import three_digits
from flink_autoscaler.core.model.orders import AuditStamp, PauseScope
from flink_autoscaler.core.model.supervision import RescaleRecord, SupervisionPhase
from flink_autoscaler.standalone.views.explanation import (
    Explanation,
    VertexExplanation,
    measured_value,
    summary_sentence,
)

_MAX_OF_A_UNIT: Final = 180
"""From so many of a unit on an age is told in the next one."""
_SAME: Final = 1e-6
"""Factors that differ by less are the same."""
_TITLES: Final = ("VERTEX", "NOW", "BUSY", "TARGET/S", "NEEDS/S", "HAS/S", "FACTOR", "WANTED", "FINAL")


Rows = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Titles of a table, and its rows."""


def explanation_sections(
    explained: Explanation, vertex: str | None = None, *, now_ms: int | None = None
) -> Iterator[tuple[str, Sequence[str] | Rows]]:
    """Yield the parts of the text: each a title with its lines, of which there may be none, or a table.

    Args:
        explained: What to tell.
        vertex: Name or id of a vertex to be shown with all its terms; None shows those that change or were held back.
        now_ms: The present, epoch milliseconds, by which the age of the pass is told; None tells none.
    """
    decided = summary_sentence(explained)
    at = format_local_time(explained.request.now_ms)
    title = f"{explained.request.context.job_key}  {at}{_age_text(explained, now_ms)}"
    yield title, [explained.headline, *([decided] if decided else [])]
    yield "because", list(explained.because)
    yield "in shadow mode", list(_in_shadow(explained))
    if explained.vertices:
        yield "vertices", (_TITLES, [_vertex_row(each) for each in explained.vertices])
    origins = ((story.name, *each) for story in explained.vertices for each in story.origins.items())
    yield (
        "not from Flink's REST API",
        [f"{name}: {metric.replace('_', ' ').lower()} from {origin}" for name, metric, origin in origins],
    )
    yield "planned for a restart", [explained.restart] if explained.restart else []
    for story in explained.vertices:
        if (
            (story.is_notable and (story.figures or story.notes))
            if vertex is None
            else vertex in (story.name, story.vertex_id)
        ):
            yield f"{story.name}  {story.parallelism} -> {story.final}", list(_parallelism_steps(story, explained))
    yield "afterwards", list(_follow_up_lines(explained))
    yield "told", [f"{event.reason}: {event.message}" for event in explained.outcome.events]
    yield "in force", list(_active_restrictions(explained))


def _in_shadow(explained: Explanation) -> Iterator[str]:
    """Yield what the second policy of the job would do, and why; nothing without one."""
    shadow = explained.outcome.shadow
    if shadow is None:
        return
    if shadow.wanted is None:
        yield f"{shadow.policy} has no opinion; the job has {shadow.held} slots"
    elif not shadow.changes:
        yield f"{shadow.policy} would leave the job at {shadow.held} slots"
    else:
        now = {story.vertex_id: story.parallelism for story in explained.vertices}
        changed = explained.changes(now, {**now, **shadow.changes})
        yield f"{shadow.policy} would go from {shadow.held} slots to {shadow.wanted}: {changed}; nothing of it is done"
    for reason in shadow.reasons:
        subject = "" if reason.vertex_id is None else f"{explained.name(reason.vertex_id)}: "
        yield f"{subject}{reason.text} ({reason.code})"


def _age_text(explained: Explanation, now_ms: int | None) -> str:
    """Return how old the pass is; a pass that came to nothing new is recorded only now and then."""
    if now_ms is None or now_ms < explained.request.now_ms:
        return ""
    seconds = (now_ms - explained.request.now_ms) // 1000
    for unit, length in (("s", 1), ("min", 60), ("h", 3600)):
        if seconds < _MAX_OF_A_UNIT * length:
            return f", {seconds // length} {unit} ago"
    return f", {seconds // 86_400} days ago"


def _vertex_row(story: VertexExplanation) -> Sequence[str]:
    busy, figures = measured_value(story, ScalingMetric.LOAD), story.figures
    return (
        story.name,
        str(story.parallelism),
        "-" if busy is None else f"{busy:.0%}",
        rate_text(measured_value(story, ScalingMetric.TARGET_DATA_RATE)),
        rate_text(figures.get("needed_rate")),
        rate_text(figures.get("processing_rate", measured_value(story, ScalingMetric.TRUE_PROCESSING_RATE))),
        f"{figures['factor']:.2f}" if "factor" in figures else "-",
        f"{figures['wanted']:.0f}" if "wanted" in figures else "-",
        str(story.final),
    )


def rate_text(value: float | None) -> str:
    """Return a rate as people read it."""
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return "unlimited"
    return three_digits(value)


def format_local_time(at_ms: int) -> str:
    """Return an instant in local time."""
    return f"{datetime.fromtimestamp(at_ms / 1000).astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _parallelism_steps(story: VertexExplanation, explained: Explanation) -> Iterator[str]:
    """Yield how the parallelism of a vertex came about, step by step."""
    if story.figures:
        yield from _sizing(story, story.figures, explained)
    else:
        yield from (f"{name} {rate_text(value)}" for name, value in story.measured.items())
    yield from (f"{note.text} ({note.code})" for note in story.notes)
    yield f"final {story.final}"


def _sizing(story: VertexExplanation, figures: Mapping[str, float], explained: Explanation) -> Iterator[str]:
    needed, rate, wanted = figures["needed_rate"], figures["processing_rate"], round(figures["wanted"])
    restart = explained.outcome.restart
    yield (
        f"needs {rate_text(needed)} records/s: target rate {rate_text(figures['target_rate'])} / utilization "
        f"{figures['utilization_target']:g} + {rate_text(figures['catch_up_rate'])} to catch up + "
        f"{rate_text(figures['restart_rate'])} for a restart of {0 if restart is None else restart.seconds} s"
    )
    busy = measured_value(story, ScalingMetric.LOAD)
    shown_busy = "" if busy is None else f", busy {busy:.0%}"
    share = rate / story.parallelism if story.parallelism else math.nan
    each = f"{rate_text(share)} per subtask at parallelism {story.parallelism}"
    yield f"has {rate_text(rate)} records/s: {each}{shown_busy}"
    coefficient, factor = figures["coefficient"], figures["factor"]
    raw = needed / rate / coefficient if rate else math.nan
    scalability = "" if coefficient == 1 else f" / observed scalability {coefficient:g}"
    limited = ""
    if math.isfinite(raw) and abs(raw - factor) > _SAME:
        option = "scale-up.max-factor" if factor < raw else "scale-down.max-factor"
        limited = f", limited to {factor:.2f} in one step ({option})"
    yield f"factor {rate_text(raw)} = needed / present{scalability}{limited}: wanted {wanted}"
    within, aligned = round(figures["within_limits"]), round(figures["aligned"])
    partitions = f", {figures['partitions']:.0f} by partitions" if figures["partitions"] else ""
    yield (
        f"limits {figures['least']:.0f}..{figures['greatest']:.0f} allowed, "
        f"{figures['max_parallelism']:.0f} by max parallelism{partitions}: {within}"
        + (f" instead of {wanted}" if within != wanted else "")
    )
    if aligned != within:
        yield f"aligned to key groups or partitions: {aligned}"


def _follow_up_lines(explained: Explanation) -> Iterator[str]:
    record = explained.follow_up
    if record is None:
        return
    yield f"{explained.changes(record.before, record.target)}: {_rescale_text(record)}"
    if record.reached and dict(record.reached) != dict(record.target):
        yield f"the job ran with {explained.changes(record.before, record.reached)} then"
    if record.reason:
        yield record.reason
    undone = explained.undone_by
    if undone is not None:
        yield (
            f"undone at {format_local_time(undone.decided_ms)}: {explained.changes(undone.before, undone.target)}: "
            + _rescale_text(undone)
        )


def _rescale_text(record: RescaleRecord) -> str:
    took = "" if record.settled_ms is None else f" after {(record.settled_ms - record.decided_ms) / 1000:.0f} s"
    outage = "" if record.outage_ms is None else f", outage {record.outage_ms / 1000:.1f} s"
    return f"{record.stage.value}{took}{outage}{', rolled back' if record.reverted else ''}"


def _active_restrictions(explained: Explanation) -> Iterator[str]:
    """Yield what keeps the job from being scaled freely: orders of people, pauses, and what failed before."""
    orders, supervision = explained.request.orders, explained.outcome.state.supervision
    pause = orders.pause
    if pause is not None and (pause.until_ms is None or explained.request.now_ms < pause.until_ms):
        end = "until somebody resumes it" if pause.until_ms is None else f"until {format_local_time(pause.until_ms)}"
        direction = "" if pause.direction is PauseScope.BOTH else f" {pause.direction.value}"
        yield f"scaling{direction} is paused {end}, {_stamp_text(pause.signed)}"
    for pin in orders.pins:
        yield f"{pin.pattern} is pinned to {pin.parallelism}, {_stamp_text(pin.signed)}"
    if orders.dry_run is not None:
        yield f"dry run, {_stamp_text(orders.dry_run)}"
    if supervision.pause is not None:
        yield f"paused since {format_local_time(supervision.pause.since_ms)}: {supervision.pause.text}"
    for entry in supervision.quarantine:
        yield f"{explained.name(entry.vertex_id)} stays below {entry.parallelism}, which failed ({entry.cause})"
    if supervision.edit is not None:
        yield f"somebody changed the requirements; respected until {format_local_time(supervision.edit.until_ms)}"
    current = supervision.current
    if current is not None and not current.stage.is_final and current.decided_ms != explained.request.now_ms:
        yield f"the rescale {explained.changes(current.before, current.target)} is {current.stage.value}"
    if supervision.phase is SupervisionPhase.PROBATION:
        yield "probation after a rescale"


def _stamp_text(signed: AuditStamp) -> str:
    at = (
        f" at {format_local_time(signed.at_ms)}" if signed.at_ms else ""
    )  # what the settings say was ordered at no instant
    return f"by {signed.who}{at}: {signed.reason}"
