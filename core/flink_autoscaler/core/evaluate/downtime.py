"""How long a job is away for a rescale: a regression on its own past that starts from what jobs usually need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.model.policy_values import Outage
from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts
from flink_autoscaler.core.model.supervision import Mechanism, RescaleRecord, Stage, Supervision
from flink_autoscaler.core.observe.possible import is_possible
from flink_autoscaler.core.ports.passes import EvaluatedJob

Row = tuple[float, float, float]

Z_90: Final = 1.2816
"""Quantile 0.9 of the standard normal distribution."""

SHORTEST: Final = 5.0
LONGEST: Final = 900.0
"""Bounds of an estimate, seconds."""

HALF_LIFE_MS: Final = 30 * 86_400_000
FIRST_DEVIATION: Final = 10.0
LEAST_DEVIATION: Final = 5.0
SAMPLES_FOR_DEVIATION: Final = 8
"""Fewer samples do not tell how much outages scatter; seconds."""

_GB: Final = 1e9

_MEANS: Final[dict[Mechanism, Row]] = {
    Mechanism.IN_PLACE: (15.0, 10.0, 0.05),
    Mechanism.REDEPLOY: (40.0, 20.0, 0.1),
    Mechanism.REACTIVE_LOSS: (65.0, 10.0, 0.05),
}
_DEVIATIONS: Final[dict[Mechanism, Row]] = {
    Mechanism.IN_PLACE: (10.0, 10.0, 0.1),
    Mechanism.REDEPLOY: (20.0, 20.0, 0.2),
    Mechanism.REACTIVE_LOSS: (15.0, 10.0, 0.1),
}


@quick
@dataclass(frozen=True, slots=True)
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


@quick
@dataclass(frozen=True, slots=True)
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


@quick
@dataclass(frozen=True, slots=True)
class _Sample:
    row: Row
    seconds: float
    weight: float


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
    deviation = _deviation(samples, mechanism)
    precision, moment = _posterior(samples, mechanism, deviation)
    weights = _nonnegative(precision, moment)
    mean = _dot(weights, size.row)
    spread = math.sqrt(deviation**2 + _dot(size.row, _solve(precision, size.row)))
    return DowntimeEstimate(mean, min(max(mean + Z_90 * spread, SHORTEST), LONGEST), len(samples))


def _samples(past: Sequence[RescaleRecord], mechanism: Mechanism, now_ms: int) -> list[_Sample]:
    return [
        _Sample(
            row=Size.of(record.state_bytes, record.taskmanagers, sum(record.reached.values())).row,
            seconds=record.outage_ms / 1000,
            weight=0.5 ** (max(0, now_ms - record.decided_ms) / HALF_LIFE_MS),
        )
        for record in past
        if record.mechanism is mechanism and record.outage_ms is not None and record.outage_ms >= 0
    ]


def _deviation(samples: Sequence[_Sample], mechanism: Mechanism) -> float:
    """Return how much outages scatter around the model, seconds."""
    if len(samples) < SAMPLES_FOR_DEVIATION:
        return FIRST_DEVIATION
    weights = _nonnegative(*_posterior(samples, mechanism, FIRST_DEVIATION))
    squares = sum(sample.weight * (sample.seconds - _dot(weights, sample.row)) ** 2 for sample in samples)
    return max(LEAST_DEVIATION, math.sqrt(squares / sum(sample.weight for sample in samples)))


def _posterior(samples: Sequence[_Sample], mechanism: Mechanism, deviation: float) -> tuple[list[Row], Row]:
    """Return precision matrix and moment vector of the coefficients."""
    means, deviations = _MEANS[mechanism], _DEVIATIONS[mechanism]
    priors = [1 / each**2 for each in deviations]
    scale = deviation**2
    precision = [
        tuple(
            (priors[i] if i == j else 0.0) + sum(s.weight * s.row[i] * s.row[j] for s in samples) / scale
            for j in range(3)
        )
        for i in range(3)
    ]
    moment = tuple(
        priors[i] * means[i] + sum(s.weight * s.row[i] * s.seconds for s in samples) / scale for i in range(3)
    )
    return [(row[0], row[1], row[2]) for row in precision], (moment[0], moment[1], moment[2])


def _nonnegative(precision: Sequence[Row], moment: Row) -> Row:
    """Solve for the coefficients; a negative one is fixed to 0, since nothing shortens an outage."""
    fixed: set[int] = set()
    while True:
        rows = [
            tuple(1.0 if i == j else 0.0 for j in range(3))
            if i in fixed
            else tuple(0.0 if j in fixed else precision[i][j] for j in range(3))
            for i in range(3)
        ]
        right = tuple(0.0 if i in fixed else moment[i] for i in range(3))
        weights = _solve([(r[0], r[1], r[2]) for r in rows], (right[0], right[1], right[2]))
        negative = {i for i in range(3) if weights[i] < 0 and i not in fixed}
        if not negative:
            return weights
        fixed |= negative


def _solve(matrix: Sequence[Row], right: Row) -> Row:
    """Solve three equations by Cramer's rule; the matrices here are symmetric and positive definite."""
    whole = _determinant(matrix)
    parts = []
    for column in range(3):
        replaced = [tuple(right[i] if j == column else matrix[i][j] for j in range(3)) for i in range(3)]
        parts.append(_determinant([(r[0], r[1], r[2]) for r in replaced]) / whole)
    return (parts[0], parts[1], parts[2])


def _determinant(m: Sequence[Row]) -> float:
    return (
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
        - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
        + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    )


def _dot(left: Row, right: Row) -> float:
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]


def rescales_of(supervision: Supervision) -> list[RescaleRecord]:
    """Return the rescales of a job, oldest first, without those that the cluster refused."""
    records = [*supervision.past, *([supervision.current] if supervision.current else [])]
    return [record for record in records if record.stage is not Stage.REFUSED]


def downtime_at(job: EvaluatedJob, subtasks: int) -> DowntimeEstimate:
    """Estimate the outage of a rescale to so many subtasks of all vertices."""
    records = rescales_of(job.state.supervision)
    machines = next((r.taskmanagers for r in reversed(records) if r.taskmanagers is not None), None)
    size = Size.of(state_bytes(job), machines, subtasks)
    return estimate_downtime(records, Mechanism.IN_PLACE, size, now_ms=job.now_ms)


def expected_outage(job: EvaluatedJob) -> Outage:
    """Return what the next rescale is expected to cost: from measured outages, else the assumed restart time."""
    if not _samples(rescales_of(job.state.supervision), Mechanism.IN_PLACE, job.now_ms):
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
