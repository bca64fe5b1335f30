"""Scale-downs that wait: a sliding-window maximum of recommendations per vertex."""

from __future__ import annotations

from flink_autoscaler.core.model.state import DelayedRecommendation, DelayedVertex


def delayed(
    pending: DelayedVertex | None, recommendation: DelayedRecommendation, interval_ms: int
) -> tuple[DelayedVertex | None, DelayedRecommendation | None]:
    """Add a recommendation to those of a vertex that wait.

    Args:
        pending: What waits; None where nothing does.
        recommendation: The scale-down advised now.
        interval_ms: How long it has to stay advisable; 0 or less for not at all.

    Returns:
        What waits now, and the highest recommendation of the last interval once that has passed since the first; None
        while it has not.
    """
    if interval_ms <= 0:
        return pending, recommendation
    pending = pending or DelayedVertex(recommendation.at_ms, ())
    higher = list(pending.queue)
    while higher and higher[-1].parallelism <= recommendation.parallelism:
        higher.pop()
    queue, start_ms = (*higher, recommendation), recommendation.at_ms - interval_ms
    if start_ms < pending.first_ms:
        return pending._replace(queue=queue), None
    recent = tuple(entry for entry in queue if entry.at_ms >= start_ms)
    return pending._replace(queue=recent), recent[0]
