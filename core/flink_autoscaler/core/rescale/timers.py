"""How long a rescale may take before something is wrong, by the cluster's own timers."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.evaluate.downtime import estimate_downtime, possible_state
from flink_autoscaler.core.model.policy_values import Outage
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.supervision import RescaleRecord, Supervision
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.options.context import JobAutoScalerContext

SLACK_MS: Final = 30_000
"""For passes, caches of the JobManager, and machines that are slow today."""

MIN_ACCEPT_MS: Final = 120_000
_TIMEOUTS_TO_ACCEPT: Final = 6
_MIN_WINDOW_MS: Final = 600_000
_CHECKPOINTS_IN_WINDOW: Final = 3


def accept_ms(context: JobAutoScalerContext) -> int:
    """Return how long the cluster may take to take over resource requirements."""
    return max(MIN_ACCEPT_MS, round(_TIMEOUTS_TO_ACCEPT * context.endpoint.timeout * 1000))


def allowed_ms(context: JobAutoScalerContext, facts: RescaleFacts, estimate: Outage) -> int:
    """Return how long a rescale may take once the cluster has accepted it.

    The cluster may first wait for its cooldown, for a checkpoint, for more slots, and for those slots to settle.
    """
    if context.options.rescale_timeout is not None:
        return context.options.rescale_timeout.ms
    flink = context.flink_options
    waits = (flink.cooldown, flink.forced_rescale, flink.executing_stabilization, flink.submission_stabilization)
    return sum(map(_ms, waits)) + _trigger_delay_ms(context, facts) + round(estimate.q90 * 1000) + SLACK_MS


def _trigger_delay_ms(context: JobAutoScalerContext, facts: RescaleFacts) -> int:
    flink = context.flink_options
    if flink.trigger_delay is not None:
        return flink.trigger_delay.ms
    return (interval_ms(context, facts) or 0) * (max(0, flink.trigger_failures) + 1)


def interval_ms(context: JobAutoScalerContext, facts: RescaleFacts) -> int | None:
    """Return the time between checkpoints; None when the job makes none or it is not known."""
    if facts.checkpoints is not None:
        return facts.checkpoints.interval_ms if facts.checkpoints.is_enabled else None
    configured = context.flink_options.checkpoint_interval
    return None if configured is None else configured.ms


def observation_ms(context: JobAutoScalerContext, facts: RescaleFacts) -> int:
    """Return how long a job is on probation after a rescale."""
    window = context.options.rollback_observation_window
    if window is not None:
        return window.ms
    return max(_MIN_WINDOW_MS, _CHECKPOINTS_IN_WINDOW * (interval_ms(context, facts) or 0))


def expected_downtime(supervision: Supervision, record: RescaleRecord, facts: RescaleFacts) -> Outage:
    """Return how long the job is expected to be away for a rescale."""
    return estimate_downtime(
        supervision.past,
        record.mechanism,
        state_bytes=possible_state(facts.checkpoints),
        taskmanagers=len(facts.taskmanagers) if facts.taskmanagers else None,
        subtasks=sum(record.target.values()),
    )


def _ms(duration: Duration | None) -> int:
    return 0 if duration is None else duration.ms
