"""Rescales of a simulated cluster: after a delay, with downtime, and with records that are processed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.pipeline.simulator.model import FluidJob

See = Callable[[float, float, int, int], None]


@dataclass(frozen=True, slots=True)
class RescaleTerms:
    """Cost of a rescale.

    Attributes:
        outage: Seconds that the job is away.
        delay: Seconds from the request to the outage, in which the job works on as before.
        replay: Age in seconds of the checkpoint that is restored.
        outages: Seconds of one rescale after the other, such as those that were recorded, and again from the first on
            when all were had; empty: each takes ``outage``.
    """

    outage: float = 60.0
    delay: float = 0.0
    replay: float = 0.0
    outages: tuple[float, ...] = ()

    def outage_of(self, number: int) -> float:
        """Return the seconds that the job is away for a rescale, counted from 0."""
        return self.outages[number % len(self.outages)] if self.outages else self.outage


@dataclass(frozen=True, slots=True)
class SimulatedRescale:
    """One rescale. Instants are seconds since the beginning.

    Attributes:
        slots_before: Slots of the job before it.
        replayed: Records that were processed again.
    """

    requested: float
    stopped: float
    running: float
    before: Mapping[VertexId, int]
    after: Mapping[VertexId, int]
    slots_before: int
    slots_after: int
    replayed: float = 0.0

    @property
    def is_up(self) -> bool:
        """True when any vertex grows."""
        return any(parallelism > self.before[vertex_id] for vertex_id, parallelism in self.after.items())


class RescaleAnswer(StrEnum):
    """Answer of a cluster to a request."""

    UNCHANGED = "unchanged"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


class RescalingJob:
    """A job that flows and is rescaled.

    Attributes:
        fluid: The job.
        terms: What a rescale costs.
        rescales: Those that are over, oldest first.
        rejected: Requests that came while another rescale was under way.
        running_since: When the present execution began to work; of the one before while there is none.
        stopped_at: When the execution before was stopped; None before the first rescale.
        served_before: Records that earlier executions had served, by source.
    """

    def __init__(self, fluid: FluidJob, terms: RescaleTerms) -> None:
        self.fluid = fluid
        self.rescales: list[SimulatedRescale] = []
        self.rejected = 0
        self.running_since = 0.0
        self.stopped_at: float | None = None
        self.served_before = list(fluid.served)
        self.terms = terms
        self._course: SimulatedRescale | None = None
        self.slots = fluid.model.slots(fluid.parallelism)

    @property
    def asked(self) -> Mapping[VertexId, int]:
        """The parallelism that the cluster was last asked for."""
        return self.fluid.parallelism if self._course is None else self._course.after

    def request(self, wanted: Mapping[VertexId, int]) -> RescaleAnswer:
        """Ask for another parallelism; vertices left out keep theirs."""
        most = {vertex.vertex_id: vertex.max_parallelism for vertex in self.fluid.model.vertices}
        target = {v: min(wanted.get(v, p), most[v]) for v, p in self.asked.items()}
        if target == self.asked:
            return RescaleAnswer.UNCHANGED
        if self._course is not None:
            self.rejected += 1
            return RescaleAnswer.REJECTED
        fluid, stops = self.fluid, self.fluid.now + self.terms.delay
        starts, slots = stops + self.terms.outage_of(len(self.rescales)), fluid.model.slots(target)
        self._course = SimulatedRescale(fluid.now, stops, starts, fluid.parallelism, target, self.slots, slots)
        return RescaleAnswer.ACCEPTED

    def flow_in_steps(self, seconds: float, count: int, arrivals: tuple[float, ...], see: See) -> None:
        """Let time pass in so many steps of so many seconds, and tell after each how late the job is.

        Args:
            seconds: Of a step.
            count: Of steps.
            arrivals: Rates by source, records/s.
            see: Told the seconds, the lag and the slots of every step, and for how many steps in a row that is so.
        """
        for done in range(count):
            if self._course is None and self.fluid.flow_unhindered(seconds, count - done, arrivals):
                see(seconds, 0.0, self.slots, count - done)
                return
            self.flow(seconds, arrivals)
            see(seconds, self.fluid.lag(), self.slots, 1)

    def flow(self, seconds: float, arrivals: tuple[float, ...]) -> None:
        """Let time pass with constant arrival rates; a rescale under way proceeds exactly when it is due."""
        if self._course is None:
            self.fluid.flow(seconds, arrivals)
            return
        end = self.fluid.now + seconds
        while (course := self._course) is not None:
            due = course.stopped if self.fluid.is_running else course.running
            if due > end:
                break
            self._flow_until(due, arrivals)
            if self.fluid.is_running:
                self._stop(course)
            else:
                self._start(course)
        self._flow_until(end, arrivals)

    def _flow_until(self, instant: float, arrivals: tuple[float, ...]) -> None:
        if instant > self.fluid.now:
            self.fluid.flow(instant - self.fluid.now, arrivals)

    def _stop(self, course: SimulatedRescale) -> None:
        self.fluid.is_running = False
        self.stopped_at, self.slots = course.stopped, course.slots_after
        self._course = replace(course, replayed=self.fluid.replay(self.terms.replay))

    def _start(self, course: SimulatedRescale) -> None:
        self.fluid.run_with(course.after)
        self.fluid.is_running = True
        self.running_since = course.running
        self.served_before = list(self.fluid.served)
        self.rescales.append(course)
        self._course = None
