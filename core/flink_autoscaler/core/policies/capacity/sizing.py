"""The parallelism that the capacity model gives to the vertices of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import VertexObs
from flink_autoscaler.core.policies.base.quantities import GREATEST, Need, is_beyond, shares_of, subtasks
from flink_autoscaler.core.policies.capacity.model import (
    CapacitySettings,
    VertexLoad,
    least_capacity,
    most_capacity,
    needed_capacity,
)


@dataclass(frozen=True, slots=True)
class SizedVertex:
    """What one vertex should have.

    Attributes:
        capacity: Records/s that it is sized for.
        wanted: Subtasks for that, before any limit.
        target: Parallelism within the bounds and within what one step may change.
        is_outside: Whether its capacity is outside of the band that is left alone.
    """

    vertex: VertexObs
    capacity: float
    wanted: float
    target: int
    is_outside: bool

    @property
    def is_change(self) -> bool:
        """Whether the vertex would change."""
        return self.target != self.vertex.parallelism

    @property
    def is_limited(self) -> bool:
        """Whether the vertex cannot grow to what it needs."""
        return is_beyond(self.wanted, self.vertex)


def sizings_of(needs: Mapping[VertexId, Need], settings: CapacitySettings) -> dict[VertexId, SizedVertex]:
    """Size the vertices whose need and rate are known; none goes up beyond what a bottleneck can feed or take."""
    sizings = {v: sizing for v, need in needs.items() if (sizing := size(need, settings)) is not None}
    shares = shares_of(needs, {v: sizing.wanted for v, sizing in sizings.items()}, settings.catch_up)
    return {v: _limited(sizing, needs[v], shares[v], settings) for v, sizing in sizings.items()}


def size(need: Need, settings: CapacitySettings) -> SizedVertex | None:
    """Size one vertex; None when its need or its rate is not known. One that needs nothing has no need of a rate."""
    if need.up is None or need.down is None:
        return None
    vertex = need.vertex
    if max(need.up, need.down, need.lag) == 0.0:
        return SizedVertex(vertex, 0.0, 0.0, _target(vertex, 0.0, 0.0, settings), is_outside=True)
    if need.rate is None:
        return None
    present = min(need.rate * vertex.parallelism, GREATEST)
    rising, falling = VertexLoad(need.up, need.lag, present), VertexLoad(max(need.up, need.down), need.lag, present)
    wanted, kept = (needed_capacity(load, settings) / need.rate for load in (rising, falling))
    target = _target(vertex, wanted, kept, settings)
    capacity = needed_capacity(falling if target < vertex.parallelism else rising, settings)
    is_outside = not least_capacity(rising, settings) <= present <= most_capacity(falling, settings)
    return SizedVertex(vertex, capacity, wanted, target, is_outside)


def _target(vertex: VertexObs, wanted: float, kept: float, settings: CapacitySettings) -> int:
    """Return the parallelism for ``wanted`` subtasks, or where that is fewer than now, for ``kept`` ones."""
    rising = _stepped(vertex, wanted, settings)
    if rising >= vertex.parallelism:
        return rising
    least = _stepped(vertex, kept, settings) if settings.may_lower else vertex.parallelism
    return min(max(rising, least), vertex.parallelism, vertex.max_parallelism)


def _stepped(vertex: VertexObs, wanted: float, settings: CapacitySettings) -> int:
    factor = min(max(wanted / vertex.parallelism, settings.least_factor), settings.greatest_factor)
    return subtasks(factor * vertex.parallelism, vertex)


def _limited(sizing: SizedVertex, need: Need, share: float, settings: CapacitySettings) -> SizedVertex:
    """Return the sizing for what gets past a bottleneck, where that keeps the vertex from going up so far."""
    if share >= 1.0 or sizing.target <= sizing.vertex.parallelism or need.up is None or need.down is None:
        return sizing
    part = replace(need, up=need.up * share, down=need.down * share, lag=need.lag * share)
    smaller = size(part, settings)
    if smaller is None:
        return sizing
    target = min(max(smaller.target, sizing.vertex.parallelism), sizing.target)
    return replace(sizing, target=target, capacity=smaller.capacity)
