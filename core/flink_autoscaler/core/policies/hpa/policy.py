"""``hpa``: the algorithm of the Kubernetes HorizontalPodAutoscaler, for clusters without one; subtasks are its pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal, VertexObs
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.options.hpa import HpaOptions, HpaUnit, behavior_of
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.catch_up import Load, backlog_of, load_of, load_reasons, not_running
from flink_autoscaler.core.policies.base.one_number import JOB, number_of, number_reason, proposal_of, spread
from flink_autoscaler.core.policies.base.proposals import abstention
from flink_autoscaler.core.policies.base.quantities import has_backlog, subtasks
from flink_autoscaler.core.policies.hpa.behavior import Behavior, Track
from flink_autoscaler.core.policies.hpa.memory import HpaMemory, behavior_reasons
from flink_autoscaler.core.policies.hpa.metrics import Advice, Tolerance, advise


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
        own, shared = HpaOptions(configuration), AutoscalerOptions(configuration)
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
