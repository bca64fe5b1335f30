"""One sentence about a pass: what was decided, and which one number decided it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.numbers import three_digits
from flink_autoscaler.standalone.records.explain import Explanation, VertexStory, measured


def deciding_sentence(explained: Explanation) -> str:
    """Return what was decided and by which number; empty where the pass came to nothing that a number decided."""
    if explained.outcome.error is not None or not explained.vertices:
        return ""
    if isinstance(explained.outcome.decision, Rescale):
        changed = [story for story in explained.vertices if story.final != story.parallelism]
        return _changed(max(changed, key=_step)) if changed else ""
    return _kept(explained)


def _step(story: VertexStory) -> float:
    """Return how far a vertex goes, as a factor of at least 1."""
    return max(story.final / story.parallelism, story.parallelism / story.final)


def _changed(story: VertexStory) -> str:
    figures, way = story.figures, f"{story.name} goes from {story.parallelism} to {story.final}"
    if not figures:
        return f"{way}."
    limit = _limit(story)
    if limit:
        return f"{way}: {limit}."
    share = _share(story)
    needs = f"it needs {share} of what it can process"
    needed, processed = (three_digits(figures[name]) for name in ("needed_rate", "processing_rate"))
    return f"{way}: {needs} ({needed} of {processed} records/s)."


def _limit(story: VertexStory) -> str:
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


def _kept(explained: Explanation) -> str:
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
    return _settled(sized)


def _settled(sized: Sequence[VertexStory]) -> str:
    if not sized:
        return ""
    story = max(sized, key=lambda each: each.figures["factor"])
    return f"Nothing changes: {story.name}, which has the least to spare, needs {_share(story)} of what it can process."


def _share(story: VertexStory) -> str:
    share = story.figures["needed_rate"] / story.figures["processing_rate"] if story.figures["processing_rate"] else 0.0
    return f"{share:.0%}" if math.isfinite(share) else "far more"


def _load(story: VertexStory) -> float:
    return measured(story, ScalingMetric.LOAD) or 0.0
