"""What the policy ``ds2`` goes by and remembers, and its arithmetic: one traversal of the graph gives all parallelisms.

Source: Kalavri et al., "Three steps is all you need", OSDI 2018, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, VertexObs
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.options.ds2 import Combine, Ds2Options
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.quantities import (
    GREATEST,
    Memory,
    Need,
    is_beyond,
    shares_of,
    skew_of,
    subtasks,
)


@quick
@dataclass(frozen=True, slots=True)
class Ds2Settings:
    """What the policy goes by; times in seconds, see the options for the rest.

    Attributes:
        catch_up: Seconds in which a backlog should be gone; 0 plans nothing for it.
        backlog_threshold: Seconds of input above which the lag of a source is a backlog.
    """

    interval: float
    warm_up: int
    activation: int
    combine: Combine
    ratio: float
    least_up: int
    least_down: int
    factor: float
    max_fruitless: int
    is_skew_aware: bool
    catch_up: float
    backlog_threshold: float

    @classmethod
    def of(cls, config: Mapping[str, str]) -> Ds2Settings:
        """Read the options of a job.

        Raises:
            ConfigError: A value cannot be read.
        """
        own, shared = Ds2Options.of(config), AutoscalerOptions.of(config)
        return cls(
            interval=own.ds2_policy_interval.exact_seconds,
            warm_up=own.ds2_warm_up_intervals,
            activation=own.ds2_activation_intervals,
            combine=own.ds2_activation_combine,
            ratio=own.ds2_target_rate_ratio,
            least_up=own.ds2_min_change_up,
            least_down=own.ds2_min_change_down,
            factor=own.ds2_scaling_factor,
            max_fruitless=own.ds2_max_fruitless,
            is_skew_aware=own.ds2_skew_aware,
            catch_up=shared.catch_up_duration.exact_seconds if own.ds2_add_catch_up else 0.0,
            backlog_threshold=shared.backlog_lag_threshold.exact_seconds,
        )


LEAST_GAIN: Final = 0.1
"""Share of the expected gain below which a scale-up was fruitless."""


@quick
@dataclass(frozen=True, slots=True)
class Demand:
    """Subtasks, not rounded, that are just enough for a vertex.

    Attributes:
        up: For whether to scale up, and how far.
        down: For how far it may be lowered.
    """

    up: float
    down: float


@quick
@dataclass(frozen=True, slots=True)
class Ds2Evaluation:
    """One evaluation of a job.

    Attributes:
        demands: Of the vertices of which all is known.
        shortfall: Greatest ratio of what arrives at a source to what it reads.
    """

    demands: Mapping[VertexId, Demand]
    shortfall: float = 1.0


def combined(evaluations: tuple[Ds2Evaluation, ...], how: Combine) -> Ds2Evaluation:
    """Make one evaluation of several, of the vertices that the last one knows."""
    pick = max if how is Combine.MAX else median
    demands = {}
    for vertex_id in evaluations[-1].demands:
        seen = [each.demands[vertex_id] for each in evaluations if vertex_id in each.demands]
        demands[vertex_id] = Demand(pick([each.up for each in seen]), pick([each.down for each in seen]))
    return Ds2Evaluation(demands, pick([each.shortfall for each in evaluations]))


@quick
@dataclass(frozen=True, slots=True)
class Ds2State:
    """Where the policy is with a job.

    Attributes:
        execution: Parallelism by vertex and the instants of the last rescale and restart; another one begins anew.
        evaluated_at: Last evaluation, epoch seconds.
        ignored: Evaluations since then that were ignored.
        evaluations: Those that count, oldest first.
        fruitless: Scale-ups in a row that brought next to nothing.
        is_judged: Whether the last scale-up has been counted.
    """

    memory: Memory
    execution: list[Any] = field(default_factory=list)
    evaluated_at: float | None = None
    ignored: int = 0
    evaluations: tuple[Ds2Evaluation, ...] = ()
    fruitless: int = 0
    is_judged: bool = False

    @classmethod
    def read(cls, state: Mapping[str, Any], obs: JobObservation) -> Ds2State:
        """Read what :meth:`as_json` wrote; empty for another graph and for a state that cannot be read."""
        empty = cls(Memory(frozenset(obs.vertices)))
        try:
            if frozenset(state["memory"]["vertices"]) != empty.memory.vertices:
                return empty
            return cls(
                memory=Memory.read(state["memory"], obs),
                execution=list(state["execution"]),
                evaluated_at=state["evaluated_at"],
                ignored=int(state["ignored"]),
                evaluations=tuple(map(_evaluation, state["evaluations"])),
                fruitless=int(state["fruitless"]),
                is_judged=bool(state["is_judged"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return empty

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "memory": self.memory.as_json(),
            "execution": self.execution,
            "evaluated_at": self.evaluated_at,
            "ignored": self.ignored,
            "evaluations": [
                [{v: [demand.up, demand.down] for v, demand in each.demands.items()}, each.shortfall]
                for each in self.evaluations
            ],
            "fruitless": self.fruitless,
            "is_judged": self.is_judged,
        }

    def seen(self, obs: JobObservation) -> Ds2State:
        """Return the state with an observation of a running job; another execution has to warm up again."""
        execution = [_vector(obs), obs.last_rescale_at, obs.last_restart_at]
        if execution == self.execution:
            return self
        return replace(self.interrupted(), execution=execution, is_judged=False)

    def interrupted(self) -> Ds2State:
        """Return the state of a job that has to warm up again."""
        return replace(self, evaluated_at=None, ignored=0, evaluations=())

    def without_evaluations(self) -> Ds2State:
        """Return the state after metrics were missing: evaluations have to follow each other."""
        return replace(self, evaluations=())

    def is_due(self, now: float, interval: float) -> bool:
        """Tell whether it is time for an evaluation."""
        return self.evaluated_at is None or not 0 <= now - self.evaluated_at < interval

    def evaluated(self, evaluation: Ds2Evaluation, obs: JobObservation, settings: Ds2Settings) -> Ds2State:
        """Return the state after an evaluation; those from before a long silence do not count."""
        if self.ignored < settings.warm_up:
            return replace(self, evaluated_at=obs.now, ignored=self.ignored + 1)
        last = obs.now if self.evaluated_at is None else self.evaluated_at
        is_stale = abs(obs.now - last) > max(obs.window[1] - obs.window[0], 2 * settings.interval)
        before = () if is_stale else self.evaluations
        return replace(self, evaluated_at=obs.now, evaluations=(*before, evaluation)[-settings.activation :])

    def judged(self, obs: JobObservation, *, wants_more: bool) -> Ds2State:
        """Return the state with the last scale-up counted: fruitless if more is wanted and it brought next to nothing.

        Source: "limit decisions" of Kalavri et al., "Three steps is all you need", OSDI 2018.
        """
        if not wants_more:
            return replace(self, fruitless=0, is_judged=True)
        gains = [gain for v in obs.vertices.values() if (gain := self.memory.gain_of(v)) is not None]
        if self.is_judged or not gains:
            return self
        return replace(self, fruitless=self.fruitless + 1 if max(gains) < LEAST_GAIN else 0, is_judged=True)

    def proposed(self, obs: JobObservation, targets: Mapping[VertexId, int]) -> Ds2State:
        """Return the state after a proposal: what goes up is looked at again after the rescale."""
        if all(target <= obs.vertices[v].parallelism for v, target in targets.items()):
            return self
        return replace(self, memory=replace(self.memory, raises={}).with_raises(obs, targets))


def _vector(obs: JobObservation) -> dict[VertexId, int]:
    return {v: each.parallelism for v, each in obs.vertices.items()}


def _evaluation(saved: Any) -> Ds2Evaluation:
    demands, shortfall = saved
    return Ds2Evaluation({v: Demand(*each) for v, each in demands.items()}, shortfall)


MOST_FOR_SKEW: Final = 1.5
"""Growth that skew may account for: where one key is hot, more subtasks do not help."""


@quick
@dataclass(frozen=True, slots=True)
class Ds2Plan:
    """What an evaluation comes to.

    Attributes:
        targets: Parallelism within the bounds.
        capacity: Records/s that each vertex is sized for.
        wanted: Subtasks before any limit.
        raised_by: The ratio by which everything was raised because sources cannot keep up; 1 where it was not.
    """

    targets: Mapping[VertexId, int]
    capacity: Mapping[VertexId, float]
    wanted: Mapping[VertexId, float]
    raised_by: float = 1.0


def evaluate(obs: JobObservation, needs: Mapping[VertexId, Need], settings: Ds2Settings) -> Ds2Evaluation:
    """Return how many subtasks are just enough for each vertex; it needs no rate where nothing arrives."""
    demands = {v: demand for v, need in needs.items() if (demand := _demand(need, settings)) is not None}
    behind = (_shortfall(vertex) for vertex in obs.vertices.values() if vertex.is_source)
    return Ds2Evaluation(demands, max(behind, default=1.0))


def _demand(need: Need, settings: Ds2Settings) -> Demand | None:
    if need.up is None or need.down is None:
        return None
    down = max(need.up, need.down)
    if down == 0.0:
        return Demand(0.0, 0.0)
    if need.rate is None:
        return None
    skew = min(skew_of(need.vertex), MOST_FOR_SKEW) if settings.is_skew_aware else 1.0
    return Demand(min(need.up / need.rate * skew, GREATEST), min(down / need.rate * skew, GREATEST))


def _shortfall(source: VertexObs) -> float:
    """Return how many times the records that a source reads arrive at it; 1 when it reads nothing."""
    if not source.rate_in or not source.target_rate:
        return 1.0
    return min(source.target_rate / source.rate_in, GREATEST)


def sized(
    evaluation: Ds2Evaluation, needs: Mapping[VertexId, Need], settings: Ds2Settings, *, may_lower: bool
) -> Ds2Plan:
    """Turn an evaluation into parallelisms with head-room; none goes up beyond what a bottleneck can feed or take.

    Where that scales nothing up although sources cannot keep up, an overhead that busy time does not show is at work:
    everything is sized for as much more as arrives, and nothing is lowered.
    """
    head = 1.0 + settings.factor
    wanted = {v: min(demand.up * head, GREATEST) for v, demand in evaluation.demands.items()}
    kept = {v: min(max(demand.up, demand.down) * head, GREATEST) for v, demand in evaluation.demands.items()}
    shares = shares_of(needs, wanted, 0.0)
    targets = {v: _target(needs[v].vertex, wanted[v], kept[v], shares[v], may_lower) for v in wanted}
    raised_by = _raise(evaluation, needs, wanted, targets, settings)
    if raised_by > 1.0:
        targets = {v: _raised(needs[v].vertex, much, raised_by) for v, much in wanted.items()}
    factors = {v: kept[v] if targets[v] < needs[v].vertex.parallelism else much for v, much in wanted.items()}
    capacity = {v: min(much * raised_by * (needs[v].rate or 0.0), GREATEST) for v, much in factors.items()}
    return Ds2Plan(targets, capacity, wanted, raised_by)


def _target(vertex: VertexObs, wanted: float, kept: float, share: float, may_lower: bool) -> int:
    current, rising = vertex.parallelism, subtasks(wanted, vertex)
    if rising > current:
        return min(rising, max(current, subtasks(wanted * share, vertex)))
    least = subtasks(kept, vertex) if may_lower else current
    return min(max(rising, least), current, vertex.max_parallelism)


def _raise(
    evaluation: Ds2Evaluation,
    needs: Mapping[VertexId, Need],
    wanted: Mapping[VertexId, float],
    targets: Mapping[VertexId, int],
    settings: Ds2Settings,
) -> float:
    is_explained = any(
        target > needs[v].vertex.parallelism or is_beyond(wanted[v], needs[v].vertex) for v, target in targets.items()
    )
    return evaluation.shortfall if evaluation.shortfall > settings.ratio and not is_explained else 1.0


def _raised(vertex: VertexObs, wanted: float, ratio: float) -> int:
    return max(subtasks(subtasks(wanted, vertex) * ratio, vertex), subtasks(vertex.parallelism, vertex))
