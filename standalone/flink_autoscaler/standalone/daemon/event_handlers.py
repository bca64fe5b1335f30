"""Several event handlers as one: each is told, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from flink_autoscaler.core.border import Border
from flink_autoscaler.core.errors import AutoscalerError, PluginError
from flink_autoscaler.core.model.events import Event, ScalingReport
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler


class EventHandlers:
    """Hands everything to every handler, in order (an ``AutoScalerEventHandler``).

    Args:
        handlers: Told one after the other; at least one.
    """

    def __init__(self, handlers: Sequence[AutoScalerEventHandler]) -> None:
        self._handlers = tuple(handlers)

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Take one event.

        Raises:
            AutoscalerError: A handler failed; all others were told.
        """
        _each([partial(handler.handle_event, context, event) for handler in self._handlers])

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Take one report.

        Raises:
            AutoscalerError: A handler failed; all others were told.
        """
        _each([partial(handler.handle_scaling_report, context, report) for handler in self._handlers])

    def close(self) -> None:
        """Release the resources of every handler. May raise :class:`AutoscalerError`; all others are released."""
        _each([handler.close for handler in self._handlers])


def _each(actions: Sequence[Callable[[], object]]) -> None:
    """Do all of it; foreign code may raise anything."""
    errors = [error for action in actions if (error := _attempt(action)) is not None]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise PluginError("; ".join(map(str, errors))) from errors[0]


def _attempt(action: Callable[[], object]) -> AutoscalerError | None:
    with Border() as border:
        action()
    return border.error
