"""What a daemon does to the outside, only while it may: the last look before each deed."""

from __future__ import annotations

from collections.abc import Mapping

from flink_autoscaler.core.errors import NotLeaderError
from flink_autoscaler.core.model.events import Event, ScalingReport
from flink_autoscaler.core.model.job import JobAutoScalerContext
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.core.ports.deployment import (
    NO_TERMS,
    AutoScalerEventHandler,
    Realization,
    RealizationTerms,
    ScalingRealizer,
)
from flink_autoscaler.standalone.ha.leadership import Leadership


class GuardedRealizer:
    """Realizes while this daemon leads (a ``ScalingRealizer``).

    The transport looks once more, immediately before it sends a PUT. This guard is for realizers that act by other
    means, and saves the requests before the PUT.
    """

    def __init__(self, realizer: ScalingRealizer, leadership: Leadership) -> None:
        self._realizer = realizer
        self._leadership = leadership

    def realize_overrides(
        self, context: JobAutoScalerContext, overrides: Mapping[VertexId, int], *, terms: RealizationTerms = NO_TERMS
    ) -> Realization:
        """Give every named vertex its parallelism.

        Raises:
            NotLeaderError: Another daemon may lead; nothing was done.
        """
        self._check(context)
        return self._realizer.realize_overrides(context, overrides, terms=terms)

    def realize_config(self, context: JobAutoScalerContext, changes: ConfigChanges) -> Realization:
        """Apply tuned configuration.

        Raises:
            NotLeaderError: Another daemon may lead; nothing was done.
        """
        self._check(context)
        return self._realizer.realize_config(context, changes)

    def close(self) -> None:
        """Release the realizer's resources."""
        self._realizer.close()

    def _check(self, context: JobAutoScalerContext) -> None:
        if not self._leadership.may_act(context.endpoint.timeout):
            raise NotLeaderError(f"{context.job_key} is left alone: this daemon is not the leader for certain")


class GuardedEventHandler:
    """Tells while this daemon leads, else nothing: the leader tells (an ``AutoScalerEventHandler``)."""

    def __init__(self, handler: AutoScalerEventHandler, leadership: Leadership) -> None:
        self._handler = handler
        self._leadership = leadership

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Take one event."""
        if self._leadership.may_act():
            self._handler.handle_event(context, event)

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Take one report."""
        if self._leadership.may_act():
            self._handler.handle_scaling_report(context, report)

    def close(self) -> None:
        """Release the handler's resources."""
        self._handler.close()
