"""One pass of what the policy ``slo`` learns: from a sample and what is remembered to what is known now."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.policies.slo import arrivals
from flink_autoscaler.core.policies.slo.arrivals import Counted, Interval, Needs, number
from flink_autoscaler.core.policies.slo.capacity import Capacity, effective, learned, measured
from flink_autoscaler.core.policies.slo.experts.forecasts import Usual, nearest_hours, paths
from flink_autoscaler.core.policies.slo.history import HOLE
from flink_autoscaler.core.policies.slo.levels import Strength, strengths
from flink_autoscaler.core.policies.slo.model import Forecasts, Noise, Seen, SeenVertex
from flink_autoscaler.core.policies.slo.noise import noise
from flink_autoscaler.core.policies.slo.sources.joined import joined, usual_of
from flink_autoscaler.core.policies.slo.sources.streams import Streams
from flink_autoscaler.core.policies.slo.state import FORESEEN, Graph, SloState

MOST_MINUTES: Final = 12_000
"""A hole is no longer than all history."""
FIRST_HALF: Final = 0.5
"""Seconds that have to be over before they are taken for a minute."""


@quick
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
        restarted: Seconds of the interval that was completed, where the job was restarted in it; 0 where it was not.
    """

    state: SloState
    seen: Seen
    demand: float | None = None
    backlog: float = 0.0
    is_new: bool = False
    is_blind: bool = False
    is_bucket: bool = False
    forecasts: Forecasts | None = None
    restarted: float = 0.0

    @property
    def noise(self) -> Noise:
        """How far demand strays from its forecast."""
        mix = self.state.trust.mix
        return noise(self.state.differences, mix.total / mix.count if mix.count > 0.0 else 0.0)

    @property
    def processed(self) -> float | None:
        """What was processed since the execution began, in seconds of one slot; None where it is not known."""
        counts = {key: number(each.records_in) for key, each in self.seen.vertices.items() if each.is_source}
        read = {key: count for key, count in counts.items() if count is not None}
        return _work(read, self.seen, self.state) if len(read) == len(counts) else None

    @property
    def strengths(self) -> dict[VertexId, Strength]:
        """What the vertices can do."""
        mixes = {} if self.forecasts is None else self.forecasts.mixes
        return strengths(self.seen.vertices, self.state.capacities, mixes or self.state.mix)


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
    new = {key: each.rate(each.parallelism) for key, each in capacities.items() if key not in state.units}
    units = {**state.units, **new}
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
    known = replace(_known(state, seen), demand=demand, is_new=True, is_blind=counts.is_blind)
    return _remembered(replace(known, restarted=counts.seconds if counts.is_restart else 0.0), minutes)


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
    waiting = {key: each + seen.vertices[key].uneven for key, each in pending.items() if each is not None}
    minutes, backlog = state.history.minutes, 0.0
    if any(waiting.values()):
        backlog = _work(waiting, seen, state) or 0.0
    return Learned(state, seen, minutes[-1] if minutes else None, backlog, is_blind=len(waiting) < len(pending))


def _work(records: Mapping[VertexId, float], seen: Seen, state: SloState) -> float | None:
    """Return what records at the sources are to one slot, seconds; None while nothing is known of any vertex."""
    return arrivals.demand(arrivals.reaching(records, seen.edges, state.gains), state.units, seen.vertices)


def _remembered(known: Learned, minutes: int) -> Learned:
    """Return what is known with the minutes of an interval in the history."""
    state, demand = known.state, known.demand or 0.0
    history = state.history.after(demand, minutes)
    ago = state.foreseen_ago + minutes
    streams = _streams(state, known.seen, minutes, history.completed)
    state = replace(state, history=history, streams=streams, foreseen_ago=min(ago, float(MOST_MINUTES)))
    if minutes > HOLE:
        state = replace(state, trust=state.trust.silent(), echoes=state.echoes.silent(), matches=(), foreseen=())
    else:
        state = _compared(state, minutes)
    known = replace(known, state=state, is_bucket=history.completed > 0)
    return _scored(known, history.completed if minutes <= HOLE else 0) if known.is_bucket else known


def _streams(state: SloState, seen: Seen, minutes: int, completed: int) -> Streams:
    """Return what has arrived at each of several sources, with the minutes of an interval."""
    sources = state.graph.sources
    if len(sources) < 2:  # noqa: PLR2004 - nothing to tell apart
        return state.streams
    if not state.streams.each:
        needs = Needs.of(seen, state.gains, state.units, [{key: 1.0} for key in sources])
        needed = {key: each * state.rates.get(key, 0.0) for key, each in zip(sources, needs.alone, strict=True)}
        state = replace(state, streams=Streams.of(needed))
    streams = state.streams.after(state.rates, minutes, completed)
    return streams.shared(_needs(replace(state, streams=streams), seen).alone) if streams.is_due else streams


def _compared(state: SloState, minutes: int) -> SloState:
    """Return the state after its last minutes were compared to those before and to what was foreseen."""
    history = state.history.watched(state.foreseen_now)
    fresh = history.since if history is not state.history else None
    echoes = state.echoes.after(history.minutes, minutes, fresh)
    differences = state.differences.after(
        history.minutes, known=history.known, least=minutes, day_mean=history.day_mean
    )
    return replace(state, history=history, differences=differences, echoes=echoes)


def _scored(known: Learned, completed: int) -> Learned:
    """Return what is known after buckets were completed: experts are scored and say what they expect next."""
    state, history = known.state, known.state.history
    trust = state.trust
    for ago in range(completed, 0, -1):
        trust = trust.after(history.bucket(history.count - ago), history.day_mean)
        trust = trust if ago == 1 else trust.saying({}, ())
    history = history.trimmed(state.graph.buckets_to_keep(trust, state.streams))
    streams = state.streams.trimmed(history.count)
    state = replace(state, trust=trust, history=history, streams=streams, matches=nearest_hours(history))
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
    state = known.state
    forecasts = _of_streams(known) if state.streams.is_known else _of_one(known)
    state = replace(state, foreseen=forecasts.mixed[:FORESEEN], foreseen_ago=0.0)
    return replace(known, state=state, forecasts=forecasts)


def _of_one(known: Learned) -> Forecasts:
    """Forecast the demand of a job as a whole."""
    state, history, usual = known.state, known.state.history, None
    if known.seen.profiles:
        sources = state.graph.sources
        needs = Needs.of(known.seen, state.gains, state.units, [dict.fromkeys(sources, 1.0)])
        usual = _usual(known, sources, needs.alone[0])
    found = paths(history, state.matches, usual, state.echoes)
    weights = state.trust.weights(found, is_surprised=history.surprise is not None, echoed=state.echoes.belief)
    return Forecasts(found, weights, history.since, history.surprise)


def _of_streams(known: Learned) -> Forecasts:
    """Forecast what arrives at every source, and from that the demand."""
    state, history, streams = known.state, known.state.history, known.state.streams
    needs = _needs(state, known.seen)
    pairs = zip(streams.each, needs.alone, strict=True)
    usual = [_usual(known, one.sources, factor) for one, factor in pairs]
    found = joined(history, streams, needs, state.matches, usual, state.echoes)
    weights = state.trust.weights(found.paths, is_surprised=history.surprise is not None, echoed=state.echoes.belief)
    return Forecasts(found.paths, weights, history.since, history.surprise, found.mixes(needs, weights))


def _usual(known: Learned, sources: Sequence[VertexId], factor: float) -> Usual | None:
    state = known.state
    if not known.seen.profiles or state.clock is None:
        return None
    complete = state.clock - 60.0 * state.history.filling
    return usual_of(known.seen.profiles, sources, state.rates, factor, (complete, state.clock))


def _needs(state: SloState, seen: Seen) -> Needs:
    """Return how demand follows from what arrives in the streams; several sources of one divide it as they do now."""
    arriving = []
    for one in state.streams.each:
        rates = {key: state.rates.get(key, 0.0) for key in one.sources}
        total = sum(rates.values())
        arriving.append({key: each / total if total > 0.0 else 1.0 / len(rates) for key, each in rates.items()})
    return Needs.of(seen, state.gains, state.units, arriving)
