"""A job whose source is limited by its fetchers and whose map by its processor, in a loop with the autoscaler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core.driver import JobDriver
from testkit.builders.core.graphs import a_vertex, vertex_id
from testkit.builders.core.jobs import a_context
from testkit.builders.core.readings import a_reading, operator_answers

FETCHING_SOURCE = vertex_id(1)
FETCHING_MAP = vertex_id(2)
_MINUTE_MS = 60_000


def _truth(_: int, reading: JobReading) -> JobReading:
    return reading


@dataclass
class FetchingJob:
    """Advances minute by minute; what a pass decides is done at once, and counters begin anew.

    Attributes:
        arrivals: Records/s.
        fetched: Records/s that a subtask of the source can fetch at most, however little it is busy.
        mapped: Records/s that a subtask of the map can process.
        map_limit: Share of time that the map reports to be busy when it can do no more.
        source_cost: Share of a second that the source is busy for a record.
        tells_lag: Whether the source reports its lag.
        partitions: Of the topic; 0 when unknown.
        stuck: Records that seem to wait but are never read.
        noise: Factors by which successive minutes read more or less.
        lie: Changes what the cluster says in a minute.
    """

    arrivals: float
    fetched: float = 1e9
    mapped: float = 1e9
    map_limit: float = 1.0
    source_cost: float = 1e-5
    tells_lag: bool = True
    partitions: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    parallelism: tuple[int, int] = (4, 4)
    lag: float = 0.0
    stuck: float = 0.0
    noise: tuple[float, ...] = (1.0,)
    lie: Callable[[int, JobReading], JobReading] = _truth

    def __post_init__(self) -> None:
        self.driver = JobDriver(a_context(self.options))
        self.minute = 0
        self.began = 0
        self.sizes = [self.parallelism]
        self._read = 0.0
        self._times = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]

    def run(self, minutes: int) -> PassOutcome:
        """Go on for some minutes and return the last pass."""
        for _ in range(minutes):
            outcome = self.driver.run(self.minute * _MINUTE_MS, self.reading())
            self._carry_out(outcome)
        return outcome

    def _carry_out(self, outcome: PassOutcome) -> None:
        if not isinstance(outcome.decision, Rescale):
            return
        changes = outcome.decision.summaries
        source, mapped = (
            changes[v].new if v in changes else old
            for v, old in zip((FETCHING_SOURCE, FETCHING_MAP), self.parallelism, strict=True)
        )
        self.parallelism, self.began = (source, mapped), self.minute
        self.sizes.append(self.parallelism)
        self._read, self._times = 0.0, [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]

    def reading(self) -> JobReading:
        """Let a minute pass and return what the cluster says then."""
        self.minute += 1
        waiting = self.arrivals + self.lag / 60
        fetchable, mappable = self.fetched * self.parallelism[0], self.mapped * self.parallelism[1]
        rate = min(waiting, fetchable, mappable) * self.noise[self.minute % len(self.noise)]
        self.lag = max(0.0, self.lag + 60 * (self.arrivals - rate))
        self._read += 60 * rate
        busy = min(1.0, rate * self.source_cost / self.parallelism[0])
        held = 1.0 - busy if mappable < min(waiting, fetchable) else 0.0
        mapping = self.map_limit * min(1.0, rate / mappable)
        shares = ((busy, 1.0 - busy - held, held), (mapping, 1.0 - mapping, 0.0))
        for times, share, number in zip(self._times, shares, self.parallelism, strict=True):
            times[:] = [time + 60_000 * part * number for time, part in zip(times, share, strict=True)]
        return self.lie(self.minute, self._said(rate, busy, held, mapping))

    def _said(self, rate: float, busy: float, held: float, mapping: float) -> JobReading:
        source = a_vertex(1, parallelism=self.parallelism[0], io=self._io(0), partitions=self.partitions)
        mapper = a_vertex(2, parallelism=self.parallelism[1], io=self._io(1), inputs={1: ShipStrategy.REBALANCE})
        busy_ms, held_ms = 1000 * busy, 1000 * held
        answers = {
            FlinkMetric.BUSY_TIME: Aggregate(busy_ms, busy_ms, busy_ms, busy_ms),
            FlinkMetric.BACKPRESSURE_TIME: Aggregate(average=held_ms),
            FlinkMetric.SOURCE_RECORDS_IN_RATE: Aggregate(total=rate),
            FlinkMetric.SOURCE_RECORDS_IN: Aggregate(total=self._read),
        }
        if self.tells_lag:
            answers[FlinkMetric.PENDING_RECORDS] = Aggregate(total=self.lag + self.stuck)
        told = {FETCHING_SOURCE: answers, FETCHING_MAP: operator_answers(busy_ms=1000 * mapping, rate=rate)}
        return a_reading([source, mapper], told, running_at_ms=self.began * _MINUTE_MS)

    def _io(self, number: int) -> IoMetrics:
        busy, idle, held = self._times[number]
        count = round(self._read)
        return IoMetrics(records_in=count, records_out=count, busy_ms=busy, idle_ms=idle, backpressured_ms=held)
