"""What passes told, and when."""

from __future__ import annotations

import time
from dataclasses import dataclass

from flink_autoscaler.core.model.events import Event, EventType, ScalingReport
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext


@dataclass(frozen=True)
class Told:
    """One event.

    Attributes:
        seconds: Since the first pass was prepared.
    """

    seconds: float
    job_key: JobKey
    event: Event

    def __str__(self) -> str:
        mark = "!" if self.event.type is EventType.WARNING else " "
        return f"{self.seconds:7.2f} s {mark} {self.event.reason}: {self.event.message}"


class Telling:
    """Keeps all events in order (an ``AutoScalerEventHandler``)."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Time since the beginning."""
        return time.monotonic() - self._began

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Keep an event; appending to a list is safe from several threads."""
        self.told.append(Told(self.seconds, context.job_key, event))

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Leave out reports: what is decided is told by the events about it."""

    def close(self) -> None:
        """Keep everything for the assertions."""
