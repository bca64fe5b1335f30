"""The policy ``capacity``: enough true rate for the load at the target utilization and for catching up (FLIP-271)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.policies.base.memory import Memory
from flink_autoscaler.core.policies.base.proposals import (
    abstention,
    change_reasons,
    direction_of,
    lacking_rates,
    lag_unknown,
    limited,
    not_sizable,
    nothing_lowered,
)
from flink_autoscaler.core.policies.base.quantities import (
    Need,
    SourceRates,
    has_backlog,
    lags,
    needs_of,
    present_arrivals,
    subtasks,
)
from flink_autoscaler.core.policies.capacity.model import CapacitySettings
from flink_autoscaler.core.policies.capacity.sizing import SizedVertex, sizings_of

NAME: Final = "capacity"


class CapacityPolicy:
    """Keeps the use of every vertex near the target; never lowers a job that is processing a backlog.

    A job is left alone while every vertex that would change is within the utilization bounds. What a vertex can do is
    remembered for a day, so that a nearly idle one is still known.
    """

    @property
    def name(self) -> str:
        """The word it is chosen by."""
        return NAME

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do for what arrives now.

        Raises:
            ConfigError: A setting is invalid.
        """
        return self.propose_for(given, present_arrivals(given.obs))

    def propose_for(self, given: PolicyInput, arrivals: SourceRates) -> Proposal:
        """Return what it would do if this arrived at the sources.

        Raises:
            ConfigError: A setting is invalid.
        """
        obs = given.obs
        unusable = not_sizable(obs)
        if unusable:
            return abstention(NAME, unusable, given.state)
        view = _View.of(given, arrivals)
        if not view.sizings:
            return abstention(NAME, lacking_rates(obs, view.needs), view.memory.as_json())
        return _proposal(obs, view)


@dataclass(frozen=True, slots=True)
class _View:
    """What a proposal is made of.

    Attributes:
        memory: With the observation learned.
        sizings: Of the vertices that can be sized.
        ineffective: Vertices whose last scale-up brought too little to go on.
    """

    settings: CapacitySettings
    memory: Memory
    needs: Mapping[VertexId, Need]
    sizings: Mapping[VertexId, SizedVertex]
    ineffective: frozenset[VertexId]
    has_backlog: bool

    @classmethod
    def of(cls, given: PolicyInput, arrivals: SourceRates) -> _View:
        obs, settings = given.obs, CapacitySettings.of(given.config, given.downtime)
        is_behind = has_backlog(obs, settings.backlog_threshold)
        memory = Memory.read(given.state, obs).learned(obs, has_backlog=is_behind)
        if memory.is_blind(obs):
            settings = settings.with_backlog() if is_behind else settings.without_lowering()
        needs = needs_of(obs, memory, arrivals, lags(obs))
        sizings = sizings_of(needs, settings)
        ineffective = _ineffective(sizings, memory, settings.effectiveness)
        kept = {v: replace(sizings[v], target=sizings[v].vertex.parallelism) for v in ineffective}
        return cls(settings, memory, needs, {**sizings, **kept}, ineffective, is_behind)


def _ineffective(sizings: Mapping[VertexId, SizedVertex], memory: Memory, least: float | None) -> frozenset[VertexId]:
    """Return the vertices that would go up again although the last time brought less than ``least`` of the gain."""
    rising = (v for v, sizing in sizings.items() if sizing.target > sizing.vertex.parallelism)
    gains = {v: memory.gain_of(sizings[v].vertex) for v in rising}
    return frozenset(v for v, gain in gains.items() if least is not None and gain is not None and gain < least)


def _proposal(obs: JobObservation, view: _View) -> Proposal:
    is_due = any(sizing.is_outside and sizing.is_change for sizing in view.sizings.values())
    targets = {
        v: sizing.target if is_due else subtasks(sizing.vertex.parallelism, sizing.vertex)
        for v, sizing in view.sizings.items()
    }
    capacity = {v: sizing.capacity for v, sizing in view.sizings.items()}
    changes = change_reasons(obs, targets, capacity)
    return Proposal(
        policy=NAME,
        targets=targets,
        direction=direction_of(obs, targets),
        capacity=capacity,
        confidence=len(targets) / len(obs.vertices),
        reasons=(*(changes or [_WITHIN]), *_remarks(obs, view)),
        blocks_down=view.has_backlog,
        state=view.memory.with_raises(obs, targets).as_json(),
    )


_WITHIN: Final = Reason("WITHIN_BOUNDS", "every vertex that would change is within its utilization bounds")


def _remarks(obs: JobObservation, view: _View) -> Iterator[Reason]:
    if not view.settings.may_lower:
        yield nothing_lowered(has_backlog=view.has_backlog)
    for vertex_id, sizing in view.sizings.items():
        if sizing.is_limited:
            yield limited(sizing.vertex, sizing.wanted)
        if vertex_id in view.ineffective:
            yield Reason(
                "INEFFECTIVE_SCALE_UP", f"{sizing.vertex.name}: its last scale-up brought too little", vertex_id
            )
    yield from lacking_rates(obs, view.needs)
    yield from lag_unknown(obs)
