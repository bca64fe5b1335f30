"""How long a job is away for a rescale, learned from its own past and that of its cluster.

The evaluation makes up for an assumed restart, as the reference does; what weighs a rescale against its cost asks for
an estimate by the job's size, a regression that starts from what jobs usually need.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from statistics import median
from typing import Final, NamedTuple

from flink_autoscaler.core.model.decision import RestartBasis, RestartSource, RestartTime
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.policy_values import Outage
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Mechanism, RescaleRecord, Stage, Supervision, Vector
from flink_autoscaler.core.model.value import value
from flink_autoscaler.core.observe.observation import is_restart_tracked, restart_time
from flink_autoscaler.core.observe.plausibility import is_possible
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.passes import EvaluatedJob
from flink_autoscaler.core.ports.task_managers import is_reactive

ENOUGH: Final = 3
"""Measured outages of the job, or jobs that were measured, that replace what is configured. One alone may have been an
exception, and of three jobs two have to agree."""

NEWEST: Final = 20
"""Outages of a job that count; older ones tell less about what it is now."""

KEPT: Final = 30
"""Outages that are kept of a cluster, ``ENOUGH`` of each job at most."""


def assumed_restart(state: JobState, elsewhere: Sequence[int], options: AutoscalerOptions) -> RestartTime:
    """Return how long a restart is assumed to take, and what that rests on.

    That is the median of what was measured, rounded up, between ``SHORTEST`` and ``restart.time-tracking.limit``: half
    of all restarts take longer and half of them less, and one that took for ever counts no more than any other.

    Args:
        state: Of the job, with the rescales that were followed.
        elsewhere: Milliseconds that rescales took other jobs of the cluster away, one figure per job. They count until
            the job has ``ENOUGH`` outages of its own, where with it ``ENOUGH`` jobs were measured: then what one of
            them says is never the median, however far it is from the others.
        options: Of the job. ``restart.time-tracking.enabled`` goes before everything else.
    """
    assumed, own = restart_time(state.tracking, options), newest_outages(state.supervision, NEWEST)
    is_enough_elsewhere = len(elsewhere) + bool(own) >= ENOUGH
    others = elsewhere if len(own) < ENOUGH and is_enough_elsewhere else ()
    known = [*own, *others]
    if options.restart_time_tracking or not options.measures_restarts or len(known) < ENOUGH:
        return RestartTime(assumed, RestartBasis(_unmeasured(state, options), len(own), len(others)))
    source = RestartSource.MEASURED_OF_CLUSTER if others else RestartSource.MEASURED_OF_JOB
    seconds = max(int(SHORTEST), min(math.ceil(median(known) / 1000), options.restart_time_limit.seconds))
    return RestartTime(seconds, RestartBasis(source, len(own), len(others)))


def _unmeasured(state: JobState, options: AutoscalerOptions) -> RestartSource:
    is_tracked = options.restart_time_tracking and is_restart_tracked(state.tracking)
    return RestartSource.LONGEST_TRACKED if is_tracked else RestartSource.OPTION


def newest_outages(supervision: Supervision, most: int) -> list[int]:
    """Return what the newest rescales with a measured outage took the job away, milliseconds, newest first."""
    return [outage for _, outage in islice(_measured(supervision), most)]


def _measured(supervision: Supervision) -> Iterator[tuple[int, int]]:
    """Yield instant and outage of rescales, newest first."""
    for record in reversed(supervision.rescales):
        if record.outage_ms is not None and record.outage_ms >= 0:
            yield record.decided_ms, record.outage_ms


class _Entry(NamedTuple):
    decided_ms: int
    job_key: JobKey
    outage_ms: int


class ClusterOutages:
    """What the newest rescales of each cluster took its jobs away. Calls may come from any thread."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[_Entry, ...]] = {}
        self._lock = threading.Lock()

    def note(self, cluster: str, job_key: JobKey, supervision: Supervision) -> None:
        """Take note of what was measured of a job."""
        own = [_Entry(at_ms, job_key, outage) for at_ms, outage in islice(_measured(supervision), ENOUGH)]
        with self._lock:
            others = [each for each in self._entries.get(cluster, ()) if each.job_key != job_key]
            self._entries[cluster] = tuple(sorted([*others, *own])[-KEPT:])

    def elsewhere(self, cluster: str, job_key: JobKey) -> tuple[int, ...]:
        """Return what rescales took other jobs of a cluster away, milliseconds, one median per job."""
        by_job: dict[JobKey, list[int]] = {}
        with self._lock:
            entries = self._entries.get(cluster, ())
        for each in entries:
            if each.job_key != job_key:
                by_job.setdefault(each.job_key, []).append(each.outage_ms)
        return tuple(round(median(outages)) for outages in by_job.values())

    def forget(self, job_key: JobKey) -> None:
        """Forget a job; clusters of which nothing is left are forgotten, too."""
        with self._lock:
            kept = {name: tuple(e for e in entries if e.job_key != job_key) for name, entries in self._entries.items()}
            self._entries = {name: entries for name, entries in kept.items() if entries}


Row = tuple[float, float, float]
Matrix = tuple[Row, Row, Row]

Z_90: Final = 1.2816
"""Quantile 0.9 of the standard normal distribution."""

SHORTEST: Final = 5.0
LONGEST: Final = 900.0
"""Bounds of what is assumed, seconds: a plan for less makes no difference."""

HALF_LIFE_MS: Final = 30 * 86_400_000
FIRST_DEVIATION: Final = 10.0
LEAST_DEVIATION: Final = 5.0
SAMPLES_FOR_DEVIATION: Final = 8
"""Fewer samples do not tell how much outages scatter; seconds."""

_GB: Final = 1e9

_MEANS: Final[dict[Mechanism, Row]] = {
    Mechanism.IN_PLACE: (15.0, 10.0, 0.05),
    Mechanism.REACTIVE_LOSS: (65.0, 10.0, 0.05),
}
_DEVIATIONS: Final[dict[Mechanism, Row]] = {
    Mechanism.IN_PLACE: (10.0, 10.0, 0.1),
    Mechanism.REACTIVE_LOSS: (15.0, 10.0, 0.1),
}


@value
class Size:
    """What the outage of a rescale depends on.

    Attributes:
        state_gb: State per TaskManager after it, GB: every machine restores its own share.
        subtasks: Subtasks after it, of all vertices.
    """

    state_gb: float
    subtasks: int

    @classmethod
    def of(cls, state_bytes: int | None, taskmanagers: int | None, subtasks: int) -> Size:
        """Make a size; state that is not known counts as none."""
        return cls((state_bytes or 0) / _GB / max(1, taskmanagers or 1), subtasks)

    @property
    def row(self) -> Row:
        """The features of the regression."""
        return (1.0, self.state_gb, float(self.subtasks))


@value
class DowntimeEstimate:
    """How long a rescale takes the job away, seconds.

    Attributes:
        mean: Expected value.
        q90: With nine in ten rescales being faster.
        samples: Measured outages that it rests on.
    """

    mean: float
    q90: float
    samples: int


class _Sample(NamedTuple):
    row: Row
    seconds: float
    weight: float


class _Model(NamedTuple):
    """What was learned of some samples: the coefficients, how sure they are, and how much outages scatter, seconds."""

    weights: Row
    precision: Matrix
    deviation: float


def estimate_downtime(
    past: Sequence[RescaleRecord], mechanism: Mechanism, size: Size, *, now_ms: int
) -> DowntimeEstimate:
    """Estimate the outage of a rescale by Bayesian linear regression over earlier ones of the same kind.

    Args:
        past: Rescales of the job; those without a measured outage are left out.
        mechanism: How the job is rescaled.
        size: Of the job after the rescale.
        now_ms: Epoch milliseconds; a sample loses half its weight in 30 days.
    """
    samples = _samples(past, mechanism, now_ms)
    model = _learned(samples, mechanism)
    mean = _dot(model.weights, size.row)
    spread = math.sqrt(model.deviation**2 + _dot(size.row, _solve(model.precision, size.row)))
    return DowntimeEstimate(mean, min(max(mean + Z_90 * spread, SHORTEST), LONGEST), len(samples))


@lru_cache(maxsize=64)
def _learned(samples: tuple[_Sample, ...], mechanism: Mechanism) -> _Model:
    """Learn from samples; a pass asks for several sizes, and whether a forecast looks far enough ahead."""
    deviation = _deviation(samples, mechanism)
    precision, moment = _posterior(samples, mechanism, deviation)
    return _Model(_nonnegative(precision, moment), precision, deviation)


def _samples(past: Sequence[RescaleRecord], mechanism: Mechanism, now_ms: int) -> tuple[_Sample, ...]:
    return tuple(
        _Sample(
            row=Size.of(record.state_bytes, record.taskmanagers, sum(record.reached.values())).row,
            seconds=record.outage_ms / 1000,
            weight=0.5 ** (max(0, now_ms - record.decided_ms) / HALF_LIFE_MS),
        )
        for record in past
        if _is_measured(record, mechanism) and record.outage_ms is not None
    )


def _is_measured(record: RescaleRecord, mechanism: Mechanism) -> bool:
    return record.mechanism is mechanism and record.outage_ms is not None and record.outage_ms >= 0


def _deviation(samples: Sequence[_Sample], mechanism: Mechanism) -> float:
    """Return how much outages scatter around the model, seconds."""
    if len(samples) < SAMPLES_FOR_DEVIATION:
        return FIRST_DEVIATION
    weights = _nonnegative(*_posterior(samples, mechanism, FIRST_DEVIATION))
    squares = sum(sample.weight * (sample.seconds - _dot(weights, sample.row)) ** 2 for sample in samples)
    return max(LEAST_DEVIATION, math.sqrt(squares / sum(sample.weight for sample in samples)))


def _posterior(samples: Sequence[_Sample], mechanism: Mechanism, deviation: float) -> tuple[Matrix, Row]:
    """Return precision matrix and moment vector of the coefficients."""
    means, deviations = _MEANS[mechanism], _DEVIATIONS[mechanism]
    priors = [1 / each**2 for each in deviations]
    scale = deviation**2
    precision = [
        [
            (priors[i] if i == j else 0.0) + sum([s.weight * s.row[i] * s.row[j] for s in samples]) / scale
            for j in range(3)
        ]
        for i in range(3)
    ]
    moment = [priors[i] * means[i] + sum([s.weight * s.row[i] * s.seconds for s in samples]) / scale for i in range(3)]
    return (_row(precision[0]), _row(precision[1]), _row(precision[2])), _row(moment)


def _row(values: Sequence[float]) -> Row:
    return values[0], values[1], values[2]


def _nonnegative(precision: Matrix, moment: Row) -> Row:
    """Solve for the coefficients; a negative one is fixed to 0, since nothing shortens an outage."""
    fixed, weights = set[int](), _solve(precision, moment)
    while negative := {i for i in range(3) if weights[i] < 0 and i not in fixed}:
        fixed |= negative
        weights = _solve(*_without(fixed, precision, moment))
    return weights


def _without(fixed: Collection[int], precision: Matrix, moment: Row) -> tuple[Matrix, Row]:
    """Return equations by which some coefficients are 0."""
    rows = [
        _row([0.0 if j in fixed else precision[i][j] for j in range(3)])
        if i not in fixed
        else _row([1.0 if i == j else 0.0 for j in range(3)])
        for i in range(3)
    ]
    return (rows[0], rows[1], rows[2]), _row([0.0 if i in fixed else moment[i] for i in range(3)])


def _solve(matrix: Matrix, right: Row) -> Row:
    """Solve three equations by Cramer's rule; the matrices here are symmetric and positive definite."""
    (a, b, c), (x, y, z), whole = matrix, right, _determinant(*matrix)
    return (
        _determinant((x, a[1], a[2]), (y, b[1], b[2]), (z, c[1], c[2])) / whole,
        _determinant((a[0], x, a[2]), (b[0], y, b[2]), (c[0], z, c[2])) / whole,
        _determinant((a[0], a[1], x), (b[0], b[1], y), (c[0], c[1], z)) / whole,
    )


def _determinant(a: Row, b: Row, c: Row) -> float:
    return a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) + a[2] * (b[0] * c[1] - b[1] * c[0])


def _dot(left: Row, right: Row) -> float:
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]


def mechanism_of(context: JobAutoScalerContext, before: Vector, target: Vector) -> Mechanism:
    """Return how a job would be rescaled: in reactive mode it shrinks by losing TaskManagers."""
    is_loss = is_reactive(context) and max(target.values(), default=0) < max(before.values(), default=0)
    return Mechanism.REACTIVE_LOSS if is_loss else Mechanism.IN_PLACE


def rescales_of(supervision: Supervision) -> list[RescaleRecord]:
    """Return the rescales of a job, oldest first, without those that the cluster refused."""
    records = [*supervision.past, *([supervision.current] if supervision.current else [])]
    return [record for record in records if record.stage is not Stage.REFUSED]


def downtime_at(job: EvaluatedJob, subtasks: int) -> DowntimeEstimate:
    """Estimate the outage of a rescale to so many subtasks of all vertices."""
    records = rescales_of(job.state.supervision)
    machines = next((r.taskmanagers for r in reversed(records) if r.taskmanagers is not None), None)
    size = Size.of(state_bytes(job), machines, subtasks)
    is_down = subtasks < sum(vertex.parallelism for vertex in job.topology.vertices.values())
    mechanism = Mechanism.REACTIVE_LOSS if is_down and is_reactive(job.context) else Mechanism.IN_PLACE
    return estimate_downtime(records, mechanism, size, now_ms=job.now_ms)


def expected_outage(job: EvaluatedJob) -> Outage:
    """Return what the next rescale is expected to cost: from measured outages, else the assumed restart time."""
    if not any(_is_measured(record, Mechanism.IN_PLACE) for record in rescales_of(job.state.supervision)):
        return Outage(job.restart_time, job.restart_time, replay=replay_seconds(job))
    estimate = downtime_at(job, sum(vertex.parallelism for vertex in job.topology.vertices.values()))
    return Outage(estimate.mean, estimate.q90, replay=replay_seconds(job))


def replay_seconds(job: EvaluatedJob) -> float:
    """Return the age of the checkpoint that a rescale goes back to, on average."""
    return (checkpoint_interval(job) or 0.0) / 2


def checkpoints_of(job: EvaluatedJob) -> CheckpointFacts | None:
    """Return what the cluster said about the checkpoints of a job; None where it was not asked."""
    return job.reading.facts.checkpoints if job.reading.facts else None


def checkpoint_interval(job: EvaluatedJob) -> float | None:
    """Return the seconds between checkpoints, as read or configured; None when neither is known."""
    checkpoints, configured = checkpoints_of(job), job.context.flink_options.checkpoint_interval
    if checkpoints is not None and checkpoints.interval_ms is not None:
        return checkpoints.interval_ms / 1000
    return None if configured is None else configured.exact_seconds


def possible_state(checkpoints: CheckpointFacts | None) -> int | None:
    """Return the size of the last checkpoint; None where it is not known, or told to be what no state can be."""
    size = None if checkpoints is None else checkpoints.state_bytes
    return size if size is not None and is_possible(size) else None


def state_bytes(job: EvaluatedJob) -> int | None:
    """Return the size of the last checkpoint, as it was read now or after an earlier rescale."""
    size = possible_state(checkpoints_of(job))
    if size is not None:
        return size
    known = (record.state_bytes for record in reversed(rescales_of(job.state.supervision)))
    return next((size for size in known if size is not None), None)
