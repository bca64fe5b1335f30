"""What the policy ``ds2`` remembers: the evaluations since the last rescale, and how earlier rescales ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation
from flink_autoscaler.core.options.ds2 import Combine
from flink_autoscaler.core.policies.base.memory import Memory
from flink_autoscaler.core.policies.ds2.settings import Ds2Settings

LEAST_GAIN: Final = 0.1
"""Share of the expected gain below which a scale-up was fruitless."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Subtasks, not rounded, that are just enough for a vertex.

    Attributes:
        up: For whether to scale up, and how far.
        down: For how far it may be lowered.
    """

    up: float
    down: float


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
