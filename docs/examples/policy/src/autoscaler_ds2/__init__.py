"""A policy for flink-autoscaler: the parallelism of all vertices at once from their true rates (DS2).

Kalavri et al., "Three steps is all you need: fast, accurate, automatic scaling decisions for distributed streaming
dataflows", OSDI 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.proposals import (
    NOT_RUNNING,
    abstention,
    change_reasons,
    direction_of,
    lacking_rates,
    lag_unknown,
    limited_reason,
    not_sizable,
    nothing_lowered,
)
from flink_autoscaler.core.policies.base.quantities import (
    GREATEST,
    RateMemory,
    VertexDemand,
    clamp_parallelism,
    has_backlog,
    is_beyond,
    present_arrivals,
    shares_of,
    source_lags,
    vertex_demands,
)

__all__ = ["Ds2Policy"]

_N = TypeVar("_N", int, float)

MIN_UP = 1
MIN_DOWN = 2
"""Subtasks by which a vertex has to grow or shrink for a rescale to be worth it; those of the paper's code."""


@dataclass(frozen=True)
class Settings:
    """Options of a job: four of this policy, and what all policies share; times in seconds."""

    warm_up: int
    activation: int
    scaling_factor: float
    target_rate_ratio: float
    catch_up: float
    backlog_threshold: float

    @classmethod
    def of(cls, config: Mapping[str, str]) -> Settings:
        """Read them.

        Raises:
            ConfigError: A value cannot be read; the message names its key.
        """
        shared = AutoscalerOptions.of(config)
        return cls(
            warm_up=_number(config, "ds2.warm-up", 2, int, least=0),
            activation=_number(config, "ds2.activation", 3, int, least=1),
            scaling_factor=_number(config, "ds2.scaling-factor", 0.2, float, least=0.0),
            target_rate_ratio=_number(config, "ds2.target-rate-ratio", 1.02, float, least=1.0),
            catch_up=shared.catch_up_duration.exact_seconds,
            backlog_threshold=shared.backlog_lag_threshold.exact_seconds,
        )


def _number(config: Mapping[str, str], key: str, default: _N, parse: Callable[[str], _N], *, least: _N) -> _N:
    try:
        value = parse(config[key]) if key in config else default
    except ValueError:
        value = None
    if value is None or not least <= value < math.inf:
        raise ConfigError(f"{key} is {config[key]!r}, expected a number from {least}")
    return value


Demands = Mapping[VertexId, float]
"""Subtasks by vertex that are just enough, not rounded."""


@dataclass(frozen=True)
class State:
    """What is remembered from pass to pass.

    Attributes:
        memory: Rates of subtasks and records out per record in; the autoscaler helps with that.
        execution: Parallelism by vertex and instants of the last rescale and restart; another one begins anew.
        ignored: Passes of this execution that were ignored.
        evaluations: Those that count, oldest first.
    """

    memory: RateMemory
    execution: list[Any] = field(default_factory=list)
    ignored: int = 0
    evaluations: tuple[Demands, ...] = ()

    @classmethod
    def read(cls, saved: Mapping[str, Any], obs: JobObservation) -> State:
        """Read what :meth:`as_json` wrote; empty for another job graph and for what cannot be read."""
        empty = cls(RateMemory(frozenset(obs.vertices)))
        try:
            if frozenset(saved["memory"]["vertices"]) != empty.memory.vertices:
                return empty
            memory, evaluations = RateMemory.read(saved["memory"], obs), tuple(map(dict, saved["evaluations"]))
            return cls(memory, list(saved["execution"]), int(saved["ignored"]), evaluations)
        except (KeyError, TypeError, ValueError):
            return empty

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "memory": self.memory.as_json(),
            "execution": self.execution,
            "ignored": self.ignored,
            "evaluations": [dict(each) for each in self.evaluations],
        }

    def of_execution(self, obs: JobObservation) -> State:
        """Return the state, begun anew where the job was rescaled or restarted."""
        parallelism = {v: vertex.parallelism for v, vertex in obs.vertices.items()}
        execution = [parallelism, obs.last_rescale_at, obs.last_restart_at]
        return self if execution == self.execution else State(self.memory, execution)


class Ds2Policy:
    """Sizes all vertices for what arrives at the sources, by the rates that they would have without waiting."""

    name = "ds2"

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do.

        Raises:
            ConfigError: A setting is invalid.
        """
        obs, settings = given.obs, Settings.of(given.config)
        state = State.read(given.state, obs)
        if unusable := not_sizable(obs):
            # Evaluations have to follow each other, and a job that stopped has to warm up again.
            ignored = 0 if unusable[0].code == NOT_RUNNING else state.ignored
            return abstention(self.name, unusable, replace(state, ignored=ignored, evaluations=()).as_json())
        is_behind = has_backlog(obs, settings.backlog_threshold)
        memory = state.memory.with_observation(obs, has_backlog=is_behind)
        state = replace(state.of_execution(obs), memory=memory)
        needs = vertex_demands(obs, memory, _arrivals(given, settings))
        lacking = lacking_rates(obs, needs)
        if state.ignored < settings.warm_up:
            why = Reason("WARM_UP", f"{state.ignored + 1} of {settings.warm_up} passes that are ignored")
            return abstention(self.name, (why, *lacking), replace(state, ignored=state.ignored + 1).as_json())
        state = replace(state, evaluations=(*state.evaluations, _demands(needs))[-settings.activation :])
        if (count := len(state.evaluations)) < settings.activation:
            why = Reason("ACTIVATION", f"{count} of {settings.activation} passes in a row are there")
            return abstention(self.name, (why, *lacking), state.as_json())
        latest = state.evaluations[-1]
        if not latest:
            return abstention(self.name, lacking, state.as_json())
        demands = {v: max(each.get(v, 0.0) for each in state.evaluations) for v in latest}
        may_lower = not memory.is_draining(obs)
        targets, capacity, remarks = _sized(obs, needs, demands, settings, may_lower=may_lower)
        if not may_lower:
            remarks += (nothing_lowered(has_backlog=is_behind),)
        none = Reason("MINOR_CHANGE", "no vertex would change by enough subtasks to be worth a rescale")
        changes = change_reasons(obs, targets, capacity) or [none]
        return Proposal(
            policy=self.name,
            targets=targets,
            direction=direction_of(obs, targets),
            capacity=capacity,
            confidence=len(targets) / len(obs.vertices),
            reasons=(*changes, *remarks, *lacking, *lag_unknown(obs)),
            blocks_down=is_behind,
            state=state.as_json(),
        )


def _arrivals(given: PolicyInput, settings: Settings) -> dict[VertexId, float]:
    """Return what the sources have to sustain to be done with their backlog and a restart in time."""
    rates = present_arrivals(given.obs)
    if settings.catch_up > 0:
        backlog, outage = source_lags(given.obs), given.downtime.q90
        rates = {v: rate + (backlog[v] + rate * outage) / settings.catch_up for v, rate in rates.items()}
    return rates


def _demands(needs: Mapping[VertexId, VertexDemand]) -> Demands:
    """Return the subtasks that are just enough, of the vertices of which that is known."""
    demands = {}
    for v, need in needs.items():
        if need.needed == 0.0:
            demands[v] = 0.0  # nothing arrives: no rate is needed to say so
        elif need.needed is not None and need.rate is not None:
            demands[v] = min(need.needed / need.rate, GREATEST)
    return demands


def _sized(
    obs: JobObservation,
    needs: Mapping[VertexId, VertexDemand],
    demands: Demands,
    settings: Settings,
    *,
    may_lower: bool,
) -> tuple[dict[VertexId, int], dict[VertexId, float], tuple[Reason, ...]]:
    """Turn demands into parallelism with headroom; none goes up beyond what a bottleneck can feed or take.

    Returns:
        Parallelism and the records/s that it is for, by vertex, and remarks.
    """
    wanted = {v: min(demand * (1.0 + settings.scaling_factor), GREATEST) for v, demand in demands.items()}
    shares, targets, stay = shares_of(needs, wanted), dict[VertexId, int](), dict[VertexId, int]()
    for v, much in wanted.items():
        vertex, target = obs.vertices[v], clamp_parallelism(much, obs.vertices[v])
        stay[v] = clamp_parallelism(vertex.parallelism, vertex)
        if target > vertex.parallelism:
            targets[v] = min(target, max(vertex.parallelism, clamp_parallelism(much * shares[v], vertex)))
        else:
            targets[v] = target if may_lower else stay[v]
    remarks = tuple(
        limited_reason(obs.vertices[v], much) for v, much in wanted.items() if is_beyond(much, obs.vertices[v])
    )
    is_rising = any(target > obs.vertices[v].parallelism for v, target in targets.items())
    ratio = max((_shortfall(obs, v) for v, vertex in obs.vertices.items() if vertex.is_source), default=1.0)
    if ratio > settings.target_rate_ratio and not is_rising and not remarks:
        # Sources cannot keep up although busy time says that it fits: an overhead that it does not show is at work.
        targets = {
            v: max(clamp_parallelism(clamp_parallelism(wanted[v], obs.vertices[v]) * ratio, obs.vertices[v]), stay[v])
            for v in wanted
        }
        text = f"{ratio:.3g} times what the sources read arrives, although busy time says that it fits"
        remarks = (Reason("TARGET_RATE_RATIO", text, None, (("ratio", ratio),)),)
    else:
        ratio = 1.0
    changes = [target - obs.vertices[v].parallelism for v, target in targets.items()]
    if not any(change >= MIN_UP or -change >= MIN_DOWN for change in changes):
        targets = stay
    capacity = {v: min(much * ratio * (needs[v].rate or 0.0), GREATEST) for v, much in wanted.items()}
    return targets, capacity, remarks


def _shortfall(obs: JobObservation, source: VertexId) -> float:
    """Return how many times the records that a source reads arrive at it; 1 when it reads nothing."""
    vertex = obs.vertices[source]
    return min(vertex.target_rate / vertex.rate_in, GREATEST) if vertex.rate_in and vertex.target_rate else 1.0
