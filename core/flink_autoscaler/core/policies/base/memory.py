"""What policies remember of a job from pass to pass, as JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, VertexObs

LEAST_BUSY = 0.02
"""Below this share the rate of busy time says nothing: a few records decide it."""
KEPT = 86_400.0
"""Seconds for which a rate is remembered."""

Edge = tuple[VertexId, VertexId]


@dataclass(frozen=True, slots=True)
class KnownRate:
    """Records/s of one always busy subtask, and when that was last seen."""

    rate: float
    at: float


@dataclass(frozen=True, slots=True)
class Raise:
    """A vertex before it was last scaled up: when, parallelism, and true rate of the whole vertex, records/s."""

    at: float
    parallelism: int
    rate: float

    def gain(self, vertex: VertexObs, rate: float) -> float | None:
        """Return which share of a linear gain the scale-up brought; None while there was none.

        Args:
            vertex: As it is now.
            rate: Records/s of one always busy subtask now.
        """
        if vertex.parallelism <= self.parallelism:
            return None
        expected = self.rate * (vertex.parallelism / self.parallelism - 1)
        return (rate * vertex.parallelism - self.rate) / expected if expected > 0 else None


@dataclass(frozen=True, slots=True)
class Memory:
    """What has been learned about a job graph; another graph begins anew.

    Attributes:
        vertices: The ids of the graph.
        rates: By vertex.
        ratios: Records out per record in, by edge; None for an edge along which nothing was ever seen to travel.
        backlog_at: When the job was last seen with a backlog.
        raises: Last scale-ups by vertex.
    """

    vertices: frozenset[VertexId]
    rates: Mapping[VertexId, KnownRate] = field(default_factory=dict)
    ratios: Mapping[Edge, float | None] = field(default_factory=dict)
    backlog_at: float | None = None
    raises: Mapping[VertexId, Raise] = field(default_factory=dict)

    @classmethod
    def read(cls, state: Mapping[str, Any], obs: JobObservation) -> Memory:
        """Read what :meth:`as_json` wrote; empty for another graph and for a state that cannot be read."""
        empty = cls(frozenset(obs.vertices))
        try:
            memory = cls(
                vertices=frozenset(state["vertices"]),
                rates={v: KnownRate(*each) for v, each in state["rates"].items()},
                ratios={(u, v): ratio for u, v, ratio in state["ratios"]},
                backlog_at=state["backlog_at"],
                raises={v: Raise(*each) for v, each in state["raises"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return empty
        return memory if memory.vertices == empty.vertices else empty

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "vertices": sorted(self.vertices),
            "rates": {v: [known.rate, known.at] for v, known in self.rates.items()},
            "ratios": [[u, v, ratio] for (u, v), ratio in self.ratios.items()],
            "backlog_at": self.backlog_at,
            "raises": {v: [each.at, each.parallelism, each.rate] for v, each in self.raises.items()},
        }

    def rate_of(self, vertex_id: VertexId) -> float | None:
        """Return the records/s of one always busy subtask; None when that is not known."""
        known = self.rates.get(vertex_id)
        return None if known is None else known.rate

    def gain_of(self, vertex: VertexObs) -> float | None:
        """Return which share of the expected gain the last scale-up of a vertex brought; None without one."""
        last, rate = self.raises.get(vertex.vertex_id), self.rate_of(vertex.vertex_id)
        return None if last is None or rate is None else last.gain(vertex, rate)

    def learned(self, obs: JobObservation, *, has_backlog: bool) -> Memory:
        """Return what is known after an observation."""
        recent = {v: known for v, known in self.rates.items() if 0 <= obs.now - known.at <= KEPT}
        fresh = {
            v: KnownRate(rate, obs.now)
            for v, vertex in obs.vertices.items()
            if (rate := _rate_per_subtask(vertex)) is not None
        }
        return replace(
            self,
            rates={**recent, **fresh},
            ratios={**self.ratios, **_ratios(obs, self.ratios)},
            backlog_at=obs.now if has_backlog else self.backlog_at,
            raises={v: each for v, each in self.raises.items() if 0 <= obs.now - each.at <= KEPT},
        )

    def with_raises(self, obs: JobObservation, targets: Mapping[VertexId, int]) -> Memory:
        """Return what is known after a proposal: those of its vertices that go up are looked at again later."""
        raised = {
            v: Raise(obs.now, obs.vertices[v].parallelism, known.rate * obs.vertices[v].parallelism)
            for v, target in targets.items()
            if target > obs.vertices[v].parallelism and (known := self.rates.get(v)) is not None
        }
        return replace(self, raises={**self.raises, **raised})

    def is_blind(self, obs: JobObservation) -> bool:
        """Tell whether the window still holds samples of catching up, of which the use of the job tells nothing."""
        if self.backlog_at is None:
            return False
        return abs(obs.now - self.backlog_at) < max(obs.window[1] - obs.window[0], 1.0)


def _rate_per_subtask(vertex: VertexObs) -> float | None:
    busy = vertex.busy_mean if vertex.busy is None else vertex.busy
    if vertex.true_rate is None or (busy is not None and busy < LEAST_BUSY):
        return None
    rate = vertex.true_rate / vertex.parallelism
    return rate if 0 < rate < math.inf else None


def _ratios(obs: JobObservation, known: Mapping[Edge, float | None]) -> dict[Edge, float | None]:
    """Return the ratios of this observation; of an upstream vertex that read nothing, the last known ones."""
    edges: dict[Edge, float | None] = {}
    for upstream, vertex in obs.vertices.items():
        edges |= {(upstream, v): _ratio(rate, vertex) for v, rate in vertex.rate_out.items()}
    edges |= obs.edges
    idle = {v for v, vertex in obs.vertices.items() if vertex.rate_in == 0.0}
    return {
        edge: known.get(edge) if ratio is None or edge[0] in idle else ratio
        for edge, ratio in edges.items()
        if edge[0] in obs.vertices and edge[1] in obs.vertices
    }


def _ratio(rate_out: float, vertex: VertexObs) -> float | None:
    ratio = rate_out / vertex.rate_in if vertex.rate_in else math.inf
    return ratio if ratio < math.inf else None
