"""A daemon that manages the one job of a simulated cluster, with the real core, realizer and text of the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from flink_autoscaler.core.autoscaler import JobAutoScaler, JobPassReport
from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.outcome import without_reading
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.plugins import NO_PLUGINS, Plugins
from flink_autoscaler.realizers import RescaleApiRealizer
from flink_autoscaler.stores.sql.state.own_state import own_state, own_state_text
from testkit.builders.core import RecordingEvents, a_cluster, a_context
from testkit.scenarios.rescale_model.network import InlineLoop, LossyNetwork

OPTIONS: Mapping[str, str] = {
    "metrics.window": "20 s",
    "stabilization.interval": "10 s",
    "utilization.target": "0.5",
    "utilization.max": "0.8",
    "utilization.min": "0.2",
    "catch-up.duration": "0",
    "restart.time": "0",
    "scale-down.interval": "0",
    "scale-down.max-factor": "1",
    "scale-down.economics.enabled": "false",
    "vertex.max-parallelism": "12",
    "rescale.budget.per-day": "0",
}
FLINK: Mapping[str, str] = {"jobmanager.scheduler": "adaptive", "taskmanager.numberOfTaskSlots": "4"}


@dataclass
class TextStore:
    """Keeps the supervision as the text of the database, and checks that nothing is lost on the way."""

    states: dict[str, JobState] = field(default_factory=dict)

    def load(self, job_key: str) -> JobState:
        return self.states.get(job_key, EMPTY_STATE)

    def save(self, job_key: str, state: JobState) -> None:
        kept = own_state(own_state_text(state), state.samples)
        assert kept.supervision == state.supervision
        assert kept.samples == state.samples
        self.states[job_key] = replace(state, supervision=kept.supervision)

    def delete(self, job_key: str) -> None:
        self.states.pop(job_key, None)

    def job_keys(self) -> frozenset[str]:
        return frozenset(self.states)

    def close(self) -> None:
        pass


@dataclass
class Daemon:
    """Passes over the job.

    Attributes:
        offset: Seconds by which its clock is ahead of the true time.
        told: What the cluster answered about the rescale in the last pass; None where nothing was asked or answered.
        plugins: That take part in a pass.
    """

    network: LossyNetwork
    options: Mapping[str, str] = field(default_factory=lambda: dict(OPTIONS))
    orders: Orders = NO_ORDERS
    offset: int = 0
    passes: int = 0
    told: RescaleFacts | None = None
    plugins: Plugins = NO_PLUGINS

    def __post_init__(self) -> None:
        self.store = TextStore()
        self.events = RecordingEvents()
        self.restart()

    def restart(self) -> None:
        """Forget everything but what was stored."""
        realizer = RescaleApiRealizer(
            cast("Any", lambda endpoint: self.network), cast("Any", InlineLoop()), clock=lambda: 0.0
        )
        self._autoscaler = JobAutoScaler(store=self.store, realizer=realizer, event_handler=self.events)

    @property
    def now_ms(self) -> int:
        return (self.network.cluster.now + self.offset) * 1000

    @property
    def state(self) -> JobState:
        return self.store.load(self.context().job_key)

    @property
    def reasons(self) -> list[str]:
        """Words of all events so far."""
        return [event.reason for event in self.events.events]

    def context(self) -> JobAutoScalerContext:
        cluster = self.network.cluster
        return a_context(self.options, FLINK, status=cluster.status, job_id=cluster.job_id)

    def look(self, *, is_killed: bool = False) -> JobPassReport:
        """Do one pass; a daemon that is killed has recorded it, but realizes nothing and starts anew."""
        self.passes += 1
        self.network.sent.clear()
        self.told = None
        context = self.context()
        request = self._autoscaler.request(context, self.now_ms, orders=self.orders)
        outcome = without_reading(request)
        if outcome is None:
            reading = self.network.read(request)
            self.told = reading.facts
            outcome = advance(request, reading, a_cluster(), self.plugins)
        if is_killed:
            self.store.save(context.job_key, outcome.state)
            self.restart()
            return JobPassReport(context.job_key, outcome)
        return self._autoscaler.complete(context, outcome)
