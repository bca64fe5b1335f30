"""How a simulated cluster rescales a job: after a delay, with an outage, and with records that are processed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.pipeline.simulator.model import FluidJob


@dataclass(frozen=True, slots=True)
class RescaleTerms:
    """What a rescale costs.

    Attributes:
        outage: Seconds that the job is away.
        delay: Seconds from the request to the outage, in which the job works on as before.
        replay: Age in seconds of the checkpoint that is restored.
    """

    outage: float = 60.0
    delay: float = 0.0
    replay: float = 0.0


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
        """Whether any vertex grows."""
        return any(parallelism > self.before[vertex_id] for vertex_id, parallelism in self.after.items())


class RescaleAnswer(StrEnum):
    """What a cluster makes of a request."""

    UNCHANGED = "unchanged"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass
class _Course:
    """A rescale that is not over."""

    target: dict[VertexId, int]
    requested: float
    stops: float
    starts: float = 0.0
    slots_before: int = 0
    replayed: float = 0.0


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
        self._course: _Course | None = None
        self.slots = fluid.model.slots(fluid.parallelism)

    @property
    def asked(self) -> Mapping[VertexId, int]:
        """The parallelism that the cluster was last asked for."""
        return self.fluid.parallelism if self._course is None else self._course.target

    def request(self, wanted: Mapping[VertexId, int]) -> RescaleAnswer:
        """Ask for another parallelism; vertices left out keep theirs."""
        most = {vertex.vertex_id: vertex.max_parallelism for vertex in self.fluid.model.vertices}
        target = {v: min(wanted.get(v, p), most[v]) for v, p in self.asked.items()}
        if target == self.asked:
            return RescaleAnswer.UNCHANGED
        if self._course is not None:
            self.rejected += 1
            return RescaleAnswer.REJECTED
        now = self.fluid.now
        self._course = _Course(target, now, now + self.terms.delay)
        return RescaleAnswer.ACCEPTED

    def flow(self, seconds: float, arrivals: tuple[float, ...]) -> None:
        """Let time pass with constant arrival rates; a rescale under way proceeds exactly when it is due."""
        if self._course is None:
            self.fluid.flow(seconds, arrivals)
            return
        end = self.fluid.now + seconds
        while self._course is not None and self._due(self._course) <= end:
            self._flow_until(self._due(self._course), arrivals)
            self._proceed(self._course)
        self._flow_until(end, arrivals)

    def _due(self, course: _Course) -> float:
        return course.stops if self.fluid.is_running else course.starts

    def _flow_until(self, instant: float, arrivals: tuple[float, ...]) -> None:
        if instant > self.fluid.now:
            self.fluid.flow(instant - self.fluid.now, arrivals)

    def _proceed(self, course: _Course) -> None:
        if self.fluid.is_running:
            self._stop(course)
        else:
            self._start(course)

    def _stop(self, course: _Course) -> None:
        self.fluid.is_running = False
        self.stopped_at = course.stops
        course.replayed = self.fluid.replay(self.terms.replay)
        course.starts = course.stops + self.terms.outage
        course.slots_before, self.slots = self.slots, self.fluid.model.slots(course.target)

    def _start(self, course: _Course) -> None:
        before = self.fluid.parallelism
        self.fluid.run_with(course.target)
        self.fluid.is_running = True
        self.running_since = course.starts
        self.served_before = list(self.fluid.served)
        self.rescales.append(
            SimulatedRescale(
                course.requested,
                course.stops,
                course.starts,
                before,
                course.target,
                course.slots_before,
                self.slots,
                course.replayed,
            )
        )
        self._course = None
