"""What a pass shows of a job: what arrives, what its vertices can do, and both in slots.

Demand is in *slot equivalents*: slots that the load keeps busy, at the capacity that was estimated first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.policies.slo.arrivals import (
    MAX_RATE,
    MIN_DEMAND,
    Counted,
    Edge,
    Interval,
    Seen,
    begun,
    continued,
    counted,
    in_slots,
    learned_gains,
    mixed,
    number,
    reaching,
    weight,
)
from flink_autoscaler.core.policies.slo.capacity import Capacity, assumed, effective, learned, measured
from flink_autoscaler.core.policies.slo.constants import CONSTANTS
from flink_autoscaler.core.policies.slo.load_history import BUCKET, HORIZON

_MAX_MINUTES: Final = 12_000
_QUARTER: Final = 900.0


@value
class DemandState:
    """What is remembered of a job besides its load.

    Attributes:
        clock: Until when demand is known, epoch seconds; None before the first sample.
        interval: What has been counted since then.
        rates: What arrived at the sources in the last interval, records/s.
        capacities: Of the vertices.
        units: Rate of a subtask that was estimated first, by vertex.
        gains: Records out per record in, by edge.
        mix: Records/s that one slot equivalent of demand brings to every vertex.
        max_mix: The greatest of these lately.
    """

    clock: float | None = None
    interval: Interval | None = None
    rates: Mapping[VertexId, float] = field(default_factory=dict)
    capacities: Mapping[VertexId, Capacity] = field(default_factory=dict)
    units: Mapping[VertexId, float] = field(default_factory=dict)
    gains: Mapping[Edge, float] = field(default_factory=dict)
    mix: Mapping[VertexId, float] = field(default_factory=dict)
    max_mix: Mapping[VertexId, float] = field(default_factory=dict)


@value
class Demand:
    """What a pass has shown.

    Attributes:
        state: For the next pass.
        load: Demand of the minutes since the last one that is known, slot equivalents; None where none are over.
        minutes: How many these are.
        backlog: What waits at the sources, in seconds of one slot.
        is_blind: Whether what waits is not known.
        restarted: Seconds of the interval, where the job was restarted in it; 0 where it was not.
    """

    state: DemandState
    load: float | None = None
    minutes: int = 0
    backlog: float = 0.0
    is_blind: bool = False
    restarted: float = 0.0

    def processed(self, seen: Seen) -> float | None:
        """Return what was processed since the execution began, in seconds of one slot; None where it is not known."""
        counts = {key: number(each.records_in) for key, each in seen.vertices.items() if each.is_source}
        read = {key: count for key, count in counts.items() if count is not None}
        return work(read, seen, self.state) if len(read) == len(counts) else None


def work(records: Mapping[VertexId, float], seen: Seen, state: DemandState) -> float | None:
    """Return what records at the sources are to one slot, seconds; None while nothing is known of any vertex."""
    return in_slots(reaching(records, seen.edges, state.gains), state.units, seen.vertices)


def mix_ahead(seen: Seen, state: DemandState) -> Mapping[VertexId, float]:
    """Return the records/s that one slot equivalent will soon bring to every vertex; a share that rises goes on to.

    What is smoothed lies some ten minutes behind: by as much it is looked ahead. A job of one source has one mix.
    """
    rates = reaching(state.rates, seen.edges, state.gains)
    load = in_slots(rates, state.units, seen.vertices)
    if load is None or load <= MIN_DEMAND:
        return state.mix
    ahead = CONSTANTS.mix_ahead
    return {key: each + ahead * max(rates.get(key, 0.0) / load - each, 0.0) for key, each in state.mix.items()}


def usual_loads(seen: Seen, state: DemandState) -> list[float]:
    """Return what stored profiles expect of the present and of the buckets after it; empty where they do not know.

    A source without a profile is taken to go on as it is. Buckets lie on lines between the middles of quarter hours.
    """
    first = math.floor(seen.at / _QUARTER - 0.5)
    instants = [(first + 0.5 + each) * _QUARTER for each in range(HORIZON // 3 + 3)]
    known = {key: each for key, each in seen.profiles.items() if key in state.rates}
    loads = list[float]()
    try:
        for at in instants if known else ():
            shares = {key: each.q50[each.slot(at)] for key, each in known.items()}
            usual = {key: share * known[key].base(at) for key, share in shares.items() if share is not None}
            load = work({**state.rates, **usual}, seen, state)
            if load is None or len(usual) < len(known) or not load < MAX_RATE:
                return []
            loads.append(load)
    except OverflowError:
        return []
    middles = [seen.at, *(seen.at + BUCKET * (each + 0.5) for each in range(HORIZON))]
    places = [at / _QUARTER - 0.5 - first for at in middles] if loads else []
    return [loads[int(place)] + place % 1.0 * (loads[int(place) + 1] - loads[int(place)]) for place in places]


def observe(state: DemandState, seen: Seen) -> Demand:
    """Return what a sample shows; no load where it follows the one before at once or cannot be used."""
    if not (math.isfinite(seen.at) and math.isfinite(seen.execution)):
        return Demand(state)
    before = state.interval
    interval = None if before is None else continued(before, seen)
    interval = begun(seen) if interval is None else interval
    if interval is None:
        return _waiting(replace(state, interval=None), seen)
    clock = seen.at if state.clock is None or seen.at < state.clock - 60.0 else state.clock
    state = replace(state, clock=clock, interval=interval)
    minutes = min(max(math.floor((interval.at - clock) / 60.0 + 0.5), 0), _MAX_MINUTES)
    counts = counted(interval, seen, state.rates) if minutes and interval.at == seen.at else None
    return _waiting(state, seen) if counts is None else _counted(state, seen, counts, minutes)


def _waiting(state: DemandState, seen: Seen) -> Demand:
    pending = {key: number(each.pending) for key, each in seen.vertices.items() if each.is_source}
    known = {key: each + seen.vertices[key].uneven for key, each in pending.items() if each is not None}
    backlog = (work(known, seen, state) or 0.0) if any(known.values()) else 0.0
    return Demand(state, backlog=backlog, is_blind=len(known) < len(pending))


def _counted(state: DemandState, seen: Seen, counts: Counted, minutes: int) -> Demand:
    capacities = _capacities(state.capacities, seen, counts)
    units = {**state.units, **{k: c.rate(c.parallelism) for k, c in capacities.items() if k not in state.units}}
    gains = learned_gains(state.gains, seen, counts)
    rates = reaching(counts.rates, seen.edges, gains)
    load = in_slots(rates, units, seen.vertices)
    mix = state.mix
    max_mix = state.max_mix
    if load is not None:
        mix = mixed(mix, rates, load, weight(counts.seconds))
        fading = CONSTANTS.mix_fading**minutes
        max_mix = {key: max(each, fading * max_mix.get(key, 0.0)) for key, each in mix.items()}
    state = DemandState(
        (state.clock or seen.at) + 60.0 * minutes,
        begun(seen),
        counts.rates,
        capacities,
        units,
        gains,
        mix,
        max_mix,
    )
    found = _waiting(state, seen)
    if load is None:
        return found
    return replace(found, load=load, minutes=minutes, restarted=counts.seconds if counts.is_restart else 0.0)


def _capacities(before: Mapping[VertexId, Capacity], seen: Seen, counts: Counted) -> dict[VertexId, Capacity]:
    found = {}
    for key, vertex in seen.vertices.items():
        subtasks, busy = effective(vertex.parallelism, vertex.groups), number(vertex.busy)
        records = counts.flows.get(key, (0.0, None))[0]
        rate = measured(records, counts.seconds, busy, subtasks)
        capacity = learned(before.get(key), rate, subtasks, busy=busy, minutes=counts.seconds / 60.0)
        if capacity is None and vertex.is_free:
            capacity = assumed(records / counts.seconds, busy, subtasks)
        if capacity is not None:
            found[key] = capacity
    return found
