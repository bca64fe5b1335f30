"""What metrics advise: the arithmetic of the Kubernetes HorizontalPodAutoscaler before its behaviour.

Source: the Kubernetes page "Horizontal Pod Autoscaling", section "Algorithm details".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.model.policy_values import VertexObs
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.options.hpa import HpaOptions
from flink_autoscaler.core.policies.base.proposals import INCOMPLETE_WINDOW, missing
from flink_autoscaler.core.policies.base.quantities import rounded_up, subtasks

_NOISE: Final = 1e-9
_FARTHEST: Final = 1e6
"""Ratios beyond this say nothing more."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Relative distance from the target that changes nothing, by direction; the limits belong to it."""

    up: float
    down: float

    @classmethod
    def of(cls, options: HpaOptions) -> Tolerance:
        """Read it; what is not set for a direction is the one for both.

        Raises:
            ValueParseError: A setting cannot be read.
        """
        up, down = options.hpa_tolerance_up, options.hpa_tolerance_down
        both = options.hpa_tolerance
        return cls(both if up is None else up, both if down is None else down)

    def covers(self, ratio: float) -> bool:
        """Tell whether a metric is close enough to its target."""
        return -self.down - _NOISE <= ratio - 1.0 <= self.up + _NOISE


def advised(current: int, ratio: float, tolerance: Tolerance) -> int:
    """Return the number at which a metric that falls with it would be at its target.

    Args:
        current: The number now.
        ratio: Metric by target; may be negative or infinite, not NaN.
        tolerance: Within it, the number stays.

    Returns:
        Any whole number; the caller knows the bounds.
    """
    if tolerance.covers(ratio):
        return current
    return rounded_up(current * max(-_FARTHEST, min(ratio, _FARTHEST)))


def filled(ratio: float, share_missing: float) -> float:
    """Return the ratio with samples that are missing on the side of caution.

    They count as at their target where the others advise less, as nothing where those advise more.

    Args:
        ratio: Of the samples that are there.
        share_missing: Of all samples, 0..1.

    Returns:
        1 where that would turn the direction.
    """
    if ratio > 1.0:
        return max(1.0, ratio * (1.0 - share_missing))
    return ratio * (1.0 - share_missing) + share_missing


@dataclass(frozen=True, slots=True)
class Advice:
    """What the metrics of a vertex advise.

    Attributes:
        parallelism: Within its bounds; None when they are not known.
        reasons: At least one.
    """

    vertex: VertexObs
    parallelism: int | None
    reasons: tuple[Reason, ...]

    @property
    def at_least(self) -> int:
        """What is advised; what the vertex has, within its bounds, where that is not known."""
        return subtasks(self.vertex.parallelism, self.vertex) if self.parallelism is None else self.parallelism

    @property
    def is_up(self) -> bool:
        """Whether more is advised than there is."""
        return self.parallelism is not None and self.parallelism > self.vertex.parallelism

    def kept(self) -> Advice:
        """Return the advice to stay, within the bounds; what is not known stays so."""
        stay = None if self.parallelism is None else subtasks(self.vertex.parallelism, self.vertex)
        return Advice(self.vertex, stay, self.reasons)

    def not_lower(self) -> Advice:
        """Return the same advice, but to stay instead of to shrink."""
        return self if self.is_up else self.kept()


def advise(vertex: VertexObs, tolerance: Tolerance, utilization: float, lag_per_subtask: float | None) -> Advice:
    """Return what the metrics of a vertex advise: the greatest of what each does.

    Where one is not known the others can only raise. Outside its bounds a vertex goes to them, whatever they say.

    Args:
        vertex: The vertex.
        tolerance: Of every metric.
        utilization: Target of the busy share.
        lag_per_subtask: Target of the lag, records; None does not look at it.
    """
    if subtasks(vertex.parallelism, vertex) != vertex.parallelism:
        reason = Reason("OUT_OF_BOUNDS", f"{vertex.name}: parallelism {vertex.parallelism} is out of bounds")
        return Advice(vertex, subtasks(vertex.parallelism, vertex), (reason,))
    ratios: list[float | Reason] = [_utilization(vertex, utilization)]
    if lag_per_subtask is not None and vertex.is_source:
        ratios.append(_lag(vertex, lag_per_subtask))
    return _greatest(vertex, ratios, tolerance)


def _greatest(vertex: VertexObs, ratios: Sequence[float | Reason], tolerance: Tolerance) -> Advice:
    failed = tuple(ratio for ratio in ratios if isinstance(ratio, Reason))
    known = [ratio for ratio in ratios if not isinstance(ratio, Reason)]
    if not known:
        return Advice(vertex, None, failed)
    wanted = subtasks(max(advised(vertex.parallelism, ratio, tolerance) for ratio in known), vertex)
    if failed and wanted <= vertex.parallelism:
        return Advice(vertex, None, failed)
    return Advice(vertex, wanted, (*failed, _reason(vertex, max(known), wanted)))


def _reason(vertex: VertexObs, ratio: float, wanted: int) -> Reason:
    ratio = min(ratio, _FARTHEST)
    figures = (("ratio", ratio), ("current", float(vertex.parallelism)), ("target", float(wanted)))
    text = f"{vertex.name}: {ratio:.3g} times its target advises {wanted} instead of {vertex.parallelism}"
    if wanted == vertex.parallelism:
        text = f"{vertex.name}: {ratio:.3g} times its target, so {wanted} stays"
    return Reason("HPA_ADVICE", text, vertex.vertex_id, figures)


def _utilization(vertex: VertexObs, target: float) -> float | Reason:
    if vertex.busy is None:
        return missing(vertex, "busy time")
    there = len(vertex.subtask_rates) if vertex.subtask_rates else vertex.parallelism
    if not vertex.complete and there >= vertex.parallelism:
        return Reason(INCOMPLETE_WINDOW, f"{vertex.name}: not all metrics of the window are there", vertex.vertex_id)
    return filled(vertex.busy / max(target, _NOISE), max(0.0, 1.0 - there / vertex.parallelism))


def _lag(vertex: VertexObs, per_subtask: float) -> float | Reason:
    if vertex.lag_records is None:
        return missing(vertex, "lag")
    return vertex.lag_records / (per_subtask * vertex.parallelism)
