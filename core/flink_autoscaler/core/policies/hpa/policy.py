"""``hpa``: the algorithm of the Kubernetes HorizontalPodAutoscaler, for clusters without one; subtasks are its pods.

Source: the Kubernetes page "Horizontal Pod Autoscaling", section "Algorithm details".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal, VertexObs
from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.options.hpa import Behavior, HpaOptions, HpaUnit, behavior_of
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.proposals import INCOMPLETE_WINDOW, abstention, missing
from flink_autoscaler.core.policies.base.quantities import has_backlog, rounded_up, subtasks
from flink_autoscaler.core.policies.base.whole_job import (
    JOB,
    Load,
    backlog_of,
    load_of,
    load_reasons,
    not_running,
    number_of,
    number_reason,
    proposal_of,
    spread,
)
from flink_autoscaler.core.policies.hpa.behavior import HpaMemory, Track, behavior_reasons

_NOISE: Final = 1e-9
_FARTHEST: Final = 1e6
"""Ratios beyond this say nothing more."""


@quick
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


@quick
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
    return max(vertex.lag_records, vertex.lag_to_drain or 0.0) / (per_subtask * vertex.parallelism)


@quick
@dataclass(frozen=True, slots=True)
class _Settings:
    """What a pass needs to know of the options; durations in seconds."""

    unit: HpaUnit
    behavior: Behavior
    sync_period: float
    tolerance: Tolerance
    utilization: float
    lag_per_subtask: float | None
    lag_threshold: float
    budget: float

    @classmethod
    def read(cls, configuration: Mapping[str, str]) -> Self:
        own, shared = HpaOptions.of(configuration), AutoscalerOptions.of(configuration)
        return cls(
            unit=own.hpa_unit,
            behavior=behavior_of(own, shared.metrics_window.exact_seconds),
            sync_period=own.hpa_sync_period.exact_seconds,
            tolerance=Tolerance.of(own),
            utilization=shared.utilization_target,
            lag_per_subtask=own.hpa_lag_per_subtask,
            lag_threshold=shared.backlog_lag_threshold.exact_seconds,
            budget=shared.catch_up_duration.exact_seconds,
        )


class HpaPolicy:
    """Follows how busy the vertices are, and if told so the lag, within windows and rate limits."""

    name = "hpa"

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do.

        Raises:
            ConfigError: A setting is invalid.
        """
        obs, settings = given.obs, _Settings.read(given.config)
        is_behind = has_backlog(obs, settings.lag_threshold)
        memory = HpaMemory.read(given.state, obs).noticed(obs, is_behind=is_behind)
        state = memory.as_json()
        if stopped := not_running(obs):
            return abstention(self.name, stopped, state)
        if again := memory.repeated(self.name, obs, settings.sync_period, state):
            return again
        backlog = backlog_of(obs)
        load = load_of(obs, backlog, is_behind=is_behind, backlog_at=memory.backlog_at, budget=settings.budget)
        advices = [_under(load, _advice(vertex, settings)) for vertex in obs.vertices.values()]
        lacking = [reason for advice in advices if advice.parallelism is None for reason in advice.reasons]
        decided = (_one_for_all if settings.unit is HpaUnit.JOB else _each)(obs, advices, memory, settings.behavior)
        if decided is None:
            return abstention(self.name, lacking, state)
        blocks_down = load is Load.CATCHING_UP
        memory = memory.decided(obs.now, decided.tracks, decided.targets, blocks_down=blocks_down)
        reasons = (*load_reasons(obs, load, backlog), *decided.reasons)
        return proposal_of(self.name, obs, decided.targets, reasons, memory.as_json(), blocks_down=blocks_down)


def _advice(vertex: VertexObs, settings: _Settings) -> Advice:
    return advise(vertex, settings.tolerance, settings.utilization, settings.lag_per_subtask)


def _under(load: Load, advice: Advice) -> Advice:
    """Return what is left of an advice: nothing while it says nothing, no scale-down while there is a backlog."""
    if not load.is_telling:
        return advice.kept()
    return advice.not_lower() if load is Load.BEHIND else advice


@quick
@dataclass(frozen=True, slots=True)
class _Decided:
    targets: Mapping[VertexId, int]
    tracks: Mapping[str, Track]
    reasons: tuple[Reason, ...]


def _one_for_all(
    obs: JobObservation, advices: Sequence[Advice], memory: HpaMemory, behavior: Behavior
) -> _Decided | None:
    """Follow the greatest advice with all vertices; None where not all are known and none asks for more.

    A vertex of which nothing is known keeps at least what it has.
    """
    is_growing = any(advice.is_up for advice in advices)
    if not is_growing and any(advice.parallelism is None for advice in advices):
        return None
    desired, current = max(advice.at_least for advice in advices), number_of(obs)
    behaved = memory.behaved(JOB, desired, current, obs.now, behavior)
    said = [reason for advice in advices for reason in advice.reasons]
    summary = number_reason(current, behaved.number, "the greatest advice of all vertices")
    return _Decided(
        targets=spread(obs, behaved.number, is_growing=is_growing),
        tracks={JOB: behaved.track},
        reasons=(summary, *said, *behavior_reasons(desired, behaved)),
    )


def _each(obs: JobObservation, advices: Sequence[Advice], memory: HpaMemory, behavior: Behavior) -> _Decided | None:
    """Follow the advice for every vertex with that vertex alone; None where nothing is known of any."""
    if all(advice.parallelism is None for advice in advices):
        return None
    targets, tracks = {v: subtasks(vertex.parallelism, vertex) for v, vertex in obs.vertices.items()}, {}
    reasons: list[Reason] = []
    for advice in advices:
        vertex_id, current = advice.vertex.vertex_id, advice.vertex.parallelism
        reasons += advice.reasons
        if advice.parallelism is not None:
            behaved = memory.behaved(vertex_id, advice.parallelism, current, obs.now, behavior)
            targets[vertex_id] = subtasks(behaved.number, advice.vertex)
            tracks[vertex_id] = behaved.track
            reasons += behavior_reasons(advice.parallelism, behaved, vertex_id)
    return _Decided(targets, {**memory.tracks, **tracks}, tuple(reasons))
