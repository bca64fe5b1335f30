"""Why a pass did or did not change a job, worked out from its record: as a value, a sentence and a document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from flink_autoscaler.core.evaluate.downtime import ENOUGH
from flink_autoscaler.core.model.decision import Hold, Rescale, RestartSource
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import finite, three_digits
from flink_autoscaler.core.model.supervision import Origin, RescaleRecord, Supervision, Vector, describe_change
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.standalone.records.codec import SIZED, PassRecord
from flink_autoscaler.standalone.views.base import Text, Value, View
from flink_autoscaler.standalone.views.outcomes import decided_changes, names_of, rescale_text, window_full_ms

_NOTHING_TO_DO: Final = "NO_CHANGE"


@dataclass(frozen=True, slots=True)
class VertexExplanation:
    """What a pass made of one vertex.

    Attributes:
        parallelism: Before.
        final: After; the same where nothing changes.
        figures: Terms of the sizing by name (rates in records/s, summed over all subtasks), as the core gave them;
            empty where the vertex was not sized.
        measured: Evaluated metrics by name, those that are known.
        notes: What held the vertex back or changed its parallelism after it was sized, in order.
        origins: Where values came from, by the name of Flink's metric; those of its REST API are left out.
    """

    vertex_id: VertexId
    name: str
    parallelism: int
    final: int
    figures: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[Reason, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_notable(self) -> bool:
        """Whether it changes, or would if something did not hold it back."""
        return self.final != self.parallelism or bool(self.notes) or self.figures.get("aligned") != self.parallelism


class PassView(View):
    """One pass with every term, as ``explain --json`` shows it."""

    job_key: str
    job_id: str | None
    at: str
    at_ms: int
    phase: str
    headline: Text
    decided_by: Text | None
    because: list[Text]
    shadow: Value
    samples: int | None
    is_window_full: bool | None
    restart_time: int | None
    restart_basis: Value
    vertices: list[Value]
    follow_up: Value
    undone_by: Value
    events: list[dict[str, Text]]
    supervision: Value
    commands: Value


@dataclass(frozen=True, slots=True)
class Explanation:
    """One pass over one job.

    Attributes:
        request: What the pass was asked, with what people had ordered.
        outcome: What it came to, with what it told and what was remembered about rescales after it.
        names: Of the vertices, as far as they were read.
        headline: What was done, or that nothing was, in one line.
        because: Why, the most important first.
        restart: How long a restart was assumed to take, and what that rests on; empty where nothing was evaluated.
        vertices: In the order of the job graph; empty where nothing was evaluated.
        follow_up: The rescale that this pass began, as far as it is known by now; None where it began none.
        undone_by: The rescale that undid it.
    """

    request: PassRequest
    outcome: PassOutcome
    names: Mapping[VertexId, str]
    headline: str
    because: tuple[str, ...]
    restart: str
    vertices: tuple[VertexExplanation, ...]
    follow_up: RescaleRecord | None
    undone_by: RescaleRecord | None

    def name(self, vertex_id: VertexId) -> str:
        """Return what people call a vertex."""
        return self.names.get(vertex_id, vertex_id)

    def changes(self, before: Vector, after: Vector) -> str:
        """Return what changes between two vectors, for people: ``work 2 -> 4``."""
        return describe_change(self.names, before, after)


def explain_pass(record: PassRecord, newest: PassRecord | None = None) -> Explanation:
    """Explain a pass.

    Args:
        record: The pass.
        newest: The newest record of the job, which knows how rescales that began before have ended.
    """
    outcome = record.outcome
    latest = outcome if newest is None else newest.outcome
    follow_up, undone_by = _follow_up(latest.state.supervision, record.request.now_ms)
    names = names_of(outcome) or names_of(latest)
    return Explanation(
        record.request,
        outcome,
        names,
        headline=_headline(outcome, names, follow_up),
        because=tuple(_reasons(record, names, follow_up)),
        restart=_restart(record),
        vertices=tuple(_vertex_explanations(outcome)),
        follow_up=follow_up,
        undone_by=undone_by,
    )


def _restart(record: PassRecord) -> str:
    """Return how long a restart was assumed to take; records of older versions do not say what that rests on."""
    restart, options = record.outcome.restart, record.request.context.options
    if restart is None:
        return ""
    seconds, basis = restart.seconds, restart.basis
    if basis is None:
        return f"{seconds} s"
    assumed = "assumed (restart.time)"
    if options.measures_restarts and not options.restart_time_tracking:
        assumed += f", since neither {ENOUGH} outages of the job ({basis.own}) nor {ENOUGH} jobs were measured"
    known = f"outages of the job: {basis.own}, other jobs of its cluster: {basis.elsewhere}"
    sources = {
        RestartSource.LONGEST_TRACKED: "the longest that was tracked (restart.time-tracking.enabled)",
        RestartSource.MEASURED_OF_JOB: f"the median of {basis.own} measured outages of the job",
        RestartSource.MEASURED_OF_CLUSTER: f"the median of what was measured ({known})",
    }
    return f"{seconds} s, {sources.get(basis.source, assumed)}"


def _vertex_explanations(outcome: PassOutcome) -> Iterator[VertexExplanation]:
    if outcome.observation.topology is None:
        return
    changed = decided_changes(outcome)
    for vertex_id, vertex in outcome.observation.topology.vertices.items():
        reasons = [reason for reason in outcome.decision.reasons if reason.vertex_id == vertex_id]
        metrics = outcome.evaluated.get(vertex_id, {})
        # A metric has its latest value or its average; the latter is what decisions go by.
        known = {metric: each.current if math.isnan(each.average) else each.average for metric, each in metrics.items()}
        yield VertexExplanation(
            vertex_id,
            vertex.name,
            vertex.parallelism,
            changed.get(vertex_id, vertex.parallelism),
            {name: number for reason in reasons if reason.code in SIZED for name, number in reason.figures},
            {metric.value: value for metric, value in known.items() if not math.isnan(value)},
            tuple(reason for reason in reasons if reason.code not in SIZED),
            {metric.value: origin for metric, origin in outcome.observation.origins.get(vertex_id, {}).items()},
        )


def _headline(outcome: PassOutcome, names: Mapping[VertexId, str], follow_up: RescaleRecord | None) -> str:
    rescale = rescale_text(outcome, names)
    if rescale is not None:
        return rescale
    if follow_up is not None:
        kind = {Origin.ROLLBACK: "rollback", Origin.OPERATOR: "as ordered"}.get(follow_up.origin, "rescale")
        return f"{kind}: {describe_change(names, follow_up.before, follow_up.target)}"
    return "no change" if outcome.error is None else f"no change: the pass failed ({type(outcome.error).__name__})"


def _reasons(record: PassRecord, names: Mapping[VertexId, str], follow_up: RescaleRecord | None) -> Iterator[str]:
    """Yield reasons about the job, and about vertices that something held back or changed."""
    decision = record.outcome.decision
    if follow_up is not None and follow_up.origin is not Origin.AUTOSCALER:
        yield follow_up.reason
    about_job = [reason for reason in decision.reasons if reason.vertex_id is None]
    for reason in about_job:
        if reason.code != _NOTHING_TO_DO:
            yield f"{_with_time(reason, record.request.now_ms)} ({reason.code})"
    for reason in decision.reasons:
        if reason.vertex_id is not None and reason.code not in SIZED:
            yield f"{names.get(reason.vertex_id, reason.vertex_id)}: {reason.text} ({reason.code})"
    if isinstance(decision, Hold):
        yield from (f"{reason.text} ({reason.code})" for reason in about_job if reason.code == _NOTHING_TO_DO)


def _with_time(reason: Reason, at_ms: int) -> str:
    """Return a reason about the job, with the instant at which a metric window that fills is full."""
    full_ms = window_full_ms(reason, at_ms)
    if full_ms is None:
        return reason.text
    end = datetime.fromtimestamp(full_ms / 1000).astimezone()
    return f"{reason.text}: full at {end:%H:%M:%S}, {(full_ms - at_ms) / 1000:.0f} s after this pass"


def _follow_up(supervision: Supervision, at_ms: int) -> tuple[RescaleRecord | None, RescaleRecord | None]:
    """Return the rescale that was decided at an instant, and the one that undid it."""
    records = supervision.rescales
    for index, record in enumerate(records):
        if record.decided_ms == at_ms:
            later = (each for each in records[index + 1 :] if each.origin is not Origin.AUTOSCALER)
            return record, next(later, None) if record.reverted else None
    return None, None


def measured_value(story: VertexExplanation, metric: ScalingMetric) -> float | None:
    """Return a measured value of a vertex, None where it is not known."""
    return finite(story.measured.get(metric.value))


def summary_sentence(explained: Explanation) -> str:
    """Return what was decided and by which number; empty where the pass came to nothing that a number decided."""
    if explained.outcome.error is not None or not explained.vertices:
        return ""
    if not isinstance(explained.outcome.decision, Rescale):
        return _no_change_reason(explained)
    changed = [story for story in explained.vertices if story.final != story.parallelism]
    # The one that goes farthest, as a factor.
    story = max(changed, key=lambda each: abs(math.log(each.final / each.parallelism)), default=None)
    if story is None:
        return ""
    way = f"{story.name} goes from {story.parallelism} to {story.final}"
    if not story.figures:
        return f"{way}."
    if limit := _limit(story):
        return f"{way}: {limit}."
    needed, processed = (three_digits(story.figures[name]) for name in ("needed_rate", "processing_rate"))
    return f"{way}: it needs {_share(story)} of what it can process ({needed} of {processed} records/s)."


def _limit(story: VertexExplanation) -> str:
    """Return which limit decided, where the load alone would have led to another parallelism."""
    figures, wanted = story.figures, round(story.figures["wanted"])
    raw = figures["needed_rate"] / figures["processing_rate"] / figures["coefficient"] * story.parallelism
    within, aligned = round(figures["within_limits"]), round(figures["aligned"])
    highest = next((note.text for note in story.notes if note.code == "SCALE_DOWN_HIGHEST"), None)
    if highest is not None:
        return highest
    if within != wanted:
        return f"the load asks for {wanted}, and {within} is what its limits allow"
    if aligned != within:
        return f"the load asks for {within}, and {aligned} spreads its key groups or partitions evenly"
    if math.isfinite(raw) and abs(math.ceil(raw - 1e-9) - wanted) > 1:
        return f"the load asks for {math.ceil(raw)}, and {wanted} is as far as one step goes"
    if story.final != aligned:
        return f"the load asks for {aligned}, and {story.final} is what is left of that"
    return ""


def _no_change_reason(explained: Explanation) -> str:
    codes = {reason.code: reason.text for reason in explained.outcome.decision.reasons}
    if "GIVES_SLOTS" in codes:
        return f"Others have too few slots: {codes['GIVES_SLOTS']}."
    sized = [story for story in explained.vertices if "factor" in story.figures]
    wanting = [story for story in sized if round(story.figures["aligned"]) != story.parallelism]
    if "WITHIN_BOUNDS" in codes and wanting:
        story = max(wanting, key=_load)
        return f"Nothing changes: {story.name} is {_load(story):.0%} busy, which is within its utilization bounds."
    if wanting:
        story = max(wanting, key=lambda each: abs(math.log(each.figures["aligned"] / each.parallelism)))
        why = story.notes or [r for r in explained.outcome.decision.reasons if r.vertex_id is None]
        held = f"; {why[0].text}" if why else ""
        return f"Nothing changes: {story.name} would get {round(story.figures['aligned'])}{held}."
    if not sized:
        return ""
    story = max(sized, key=lambda each: each.figures["factor"])
    return f"Nothing changes: {story.name}, which has the least to spare, needs {_share(story)} of what it can process."


def _share(story: VertexExplanation) -> str:
    share = story.figures["needed_rate"] / story.figures["processing_rate"] if story.figures["processing_rate"] else 0.0
    return f"{share:.0%}" if math.isfinite(share) else "far more"


def _load(story: VertexExplanation) -> float:
    return measured_value(story, ScalingMetric.LOAD) or 0.0


def pass_view(explained: Explanation) -> PassView:
    """Describe a pass with every term."""
    request, outcome = explained.request, explained.outcome
    return PassView.model_validate(
        {
            "job_key": request.context.job_key,
            "job_id": request.context.job_id,
            "at": datetime.fromtimestamp(request.now_ms / 1000).astimezone().isoformat(timespec="milliseconds"),
            "at_ms": request.now_ms,
            "phase": outcome.phase.value,
            "headline": explained.headline,
            "decided_by": summary_sentence(explained) or None,
            "because": explained.because,
            "shadow": outcome.shadow,
            "samples": outcome.observation.sample_count,
            "is_window_full": outcome.observation.is_window_full,
            "restart_time": outcome.restart and outcome.restart.seconds,
            "restart_basis": outcome.restart and outcome.restart.basis,
            "vertices": explained.vertices,
            "follow_up": explained.follow_up,
            "undone_by": explained.undone_by,
            "events": [{"type": e.type.value, "reason": e.reason, "message": e.message} for e in outcome.events],
            "supervision": outcome.state.supervision,
            "commands": request.orders,
        }
    )
