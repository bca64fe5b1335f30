"""One pass of what the policy ``slo`` learns: from a sample and what is remembered to what is known now."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.policies.slo import arrivals
from flink_autoscaler.core.policies.slo.arrivals import Counted, Interval, number
from flink_autoscaler.core.policies.slo.capacity import Capacity, effective, learned, measured
from flink_autoscaler.core.policies.slo.forecasts import nearest_hours, paths
from flink_autoscaler.core.policies.slo.history import HOLE
from flink_autoscaler.core.policies.slo.levels import Strength, strengths
from flink_autoscaler.core.policies.slo.model import Forecasts, Noise, Seen, SeenVertex
from flink_autoscaler.core.policies.slo.noise import noise
from flink_autoscaler.core.policies.slo.state import FORESEEN, Graph, SloState

MOST_MINUTES: Final = 12_000
"""A hole is no longer than all history."""
FIRST_HALF: Final = 0.5


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known after a pass.

    Attributes:
        state: For the next pass.
        seen: The sample, without numbers that cannot be reckoned with.
        demand: Of the last minute, slot equivalents; None while it is not known.
        backlog: What waits at the sources, in seconds of one slot.
        is_new: Whether this pass added a minute.
        is_blind: Whether what waits is not known.
        is_bucket: Whether it completed a bucket.
        forecasts: None where they have not been made in this pass.
    """

    state: SloState
    seen: Seen
    demand: float | None = None
    backlog: float = 0.0
    is_new: bool = False
    is_blind: bool = False
    is_bucket: bool = False
    forecasts: Forecasts | None = None

    @property
    def noise(self) -> Noise:
        """How far demand strays from its forecast."""
        mix = self.state.trust.mix
        return noise(self.state.differences, mix.total / mix.count if mix.count > 0.0 else 0.0)

    @property
    def strengths(self) -> dict[VertexId, Strength]:
        """What the vertices can do."""
        return strengths(self.seen.vertices, self.state.capacities, self.state.mix)


def cleaned(seen: Seen) -> Seen:
    """Return a sample whose parallelisms and bounds are possible."""
    return replace(seen, vertices={key: _cleaned(each) for key, each in seen.vertices.items()})


def _cleaned(vertex: SeenVertex) -> SeenVertex:
    least = max(vertex.least, 1)
    greatest = max(vertex.greatest, least)
    if vertex.parallelism >= 1 and least == vertex.least and greatest == vertex.greatest:
        return vertex
    return replace(vertex, parallelism=max(vertex.parallelism, 1), least=least, greatest=greatest)


def learn(state: SloState, seen: Seen) -> Learned:
    """Return what is known after a sample; nothing new where it follows the one before at once or cannot be used."""
    seen, graph = cleaned(seen), Graph.of(seen)
    if not (math.isfinite(seen.at) and math.isfinite(seen.execution)):
        return Learned(state, seen)
    if graph != state.graph:
        state = SloState.read(state.as_json(), graph)
    interval = _continued(state.interval, seen)
    if interval is None:
        return _known(replace(state, interval=None), seen)
    clock = seen.at if state.clock is None or seen.at < state.clock - 60.0 else state.clock
    state = replace(state, clock=clock, interval=interval)
    minutes = _minutes(interval.at - clock)
    counts = arrivals.counted(interval, seen, state.rates) if minutes and interval.at == seen.at else None
    if counts is None:
        return _known(state, seen)
    return _after_interval(state, seen, counts, minutes)


def _continued(interval: Interval | None, seen: Seen) -> Interval | None:
    found = None if interval is None else arrivals.continued(interval, seen)
    return arrivals.begun(seen) if found is None else found


def _minutes(seconds: float) -> int:
    return min(max(math.floor(seconds / 60.0 + FIRST_HALF), 0), MOST_MINUTES)


def _after_interval(state: SloState, seen: Seen, counts: Counted, minutes: int) -> Learned:
    capacities = _capacities(state.capacities, seen, counts)
    units = {**{key: each.rate(each.parallelism) for key, each in capacities.items()}, **state.units}
    gains = arrivals.gains(state.gains, seen, counts)
    reaching = arrivals.reaching(counts.rates, seen.edges, gains)
    demand = arrivals.demand(reaching, units, seen.vertices)
    clock = seen.at if state.clock is None or minutes > HOLE else state.clock + 60.0 * minutes
    mix = state.mix
    if demand is not None:
        mix = arrivals.mixed(mix, reaching, demand, arrivals.weight(counts.seconds))
    state = replace(
        state,
        clock=clock,
        interval=arrivals.begun(seen),
        rates=counts.rates,
        capacities=capacities,
        units=units,
        gains=gains,
        mix=mix,
    )
    if demand is None:
        return _known(state, seen)
    return _remembered(replace(_known(state, seen), demand=demand, is_new=True, is_blind=counts.is_blind), minutes)


def _capacities(before: Mapping[VertexId, Capacity], seen: Seen, counts: Counted) -> dict[VertexId, Capacity]:
    found = {}
    for key, vertex in seen.vertices.items():
        subtasks, busy = effective(vertex.parallelism, vertex.groups), number(vertex.busy)
        records = counts.flows.get(key, (0.0, None))[0]
        rate = measured(records, counts.seconds, busy, subtasks)
        capacity = learned(before.get(key), rate, subtasks, busy=busy, minutes=counts.seconds / 60.0)
        if capacity is not None:
            found[key] = capacity
    return found


def _known(state: SloState, seen: Seen) -> Learned:
    """Return what is known without another minute."""
    pending = {key: number(each.pending) for key, each in seen.vertices.items() if each.is_source}
    waiting = {key: each for key, each in pending.items() if each is not None}
    backlog = arrivals.demand(arrivals.reaching(waiting, seen.edges, state.gains), state.units, seen.vertices)
    minutes = state.history.minutes
    return Learned(
        state,
        seen,
        minutes[-1] if minutes else None,
        (backlog or 0.0) if any(waiting.values()) else 0.0,
        is_blind=len(waiting) < len(pending),
    )


def _remembered(known: Learned, minutes: int) -> Learned:
    """Return what is known with the minutes of an interval in the history."""
    state, demand = known.state, known.demand or 0.0
    history = state.history.after(demand, minutes)
    ago = state.foreseen_ago + minutes
    state = replace(state, history=history, foreseen_ago=min(ago, float(MOST_MINUTES)))
    if minutes > HOLE:
        state = replace(state, trust=state.trust.silent(), matches=(), foreseen=())
    else:
        state = _compared(state, minutes)
    known = replace(known, state=state, is_bucket=history.completed > 0)
    return _scored(known, history.completed if minutes <= HOLE else 0) if known.is_bucket else known


def _compared(state: SloState, minutes: int) -> SloState:
    """Return the state after its last minutes were compared to those before and to what was foreseen."""
    history = state.history.watched(state.foreseen_now)
    differences = state.differences.after(
        history.minutes, known=history.known, least=minutes, day_mean=history.day_mean
    )
    return replace(state, history=history, differences=differences)


def _scored(known: Learned, completed: int) -> Learned:
    """Return what is known after buckets were completed: experts are scored and say what they expect next."""
    state, history = known.state, known.state.history
    trust = state.trust
    for ago in range(completed, 0, -1):
        trust = trust.after(history.bucket(history.count - ago))
        trust = trust if ago == 1 else trust.saying({}, ())
    history = history.trimmed(state.graph.buckets_to_keep())
    state = replace(state, trust=trust, history=history, matches=nearest_hours(history))
    known = expected(replace(known, state=state))
    forecasts = known.forecasts
    if forecasts is None:
        return known
    trust = known.state.trust.saying(forecasts.paths, forecasts.mixed)
    return replace(known, state=replace(known.state, trust=trust))


def expected(known: Learned) -> Learned:
    """Return what is known with forecasts; without them where nothing has been seen yet."""
    if known.forecasts is not None or not known.state.history.minutes:
        return known
    state, history = known.state, known.state.history
    found = paths(history, state.matches)
    weights = state.trust.weights(found, is_surprised=history.surprise is not None)
    forecasts = Forecasts(found, weights, history.since, history.surprise)
    state = replace(state, foreseen=forecasts.mixed[:FORESEEN], foreseen_ago=0.0)
    return replace(known, state=state, forecasts=forecasts)
