"""The policy ``ds2``: the parallelism of all vertices at once from their true rates.

Kalavri et al., "Three steps is all you need: fast, accurate, automatic scaling decisions for distributed streaming
dataflows", OSDI 2018.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Final

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.policies.base.proposals import (
    NOT_RUNNING,
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
    is_beyond,
    lags,
    lags_to_drain,
    needs_of,
    present_arrivals,
    skew_of,
    subtasks,
)
from flink_autoscaler.core.policies.ds2.model import (
    MOST_FOR_SKEW,
    Ds2Plan,
    Ds2Settings,
    Ds2State,
    combined,
    evaluate,
    sized,
)

NAME: Final = "ds2"


class Ds2Policy:
    """Sizes all vertices for what arrives at the sources, from the rates that they would have without waiting.

    Differs from the paper in that sources are sized, too, and that there is head-room and, unless switched off, room
    for catching up: sized for exactly what arrives, a job never works off what piled up during its rescale.
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
        obs, settings = given.obs, Ds2Settings.of(given.config)
        state = Ds2State.read(given.state, obs)
        unusable = not_sizable(obs)
        if unusable:
            is_down = unusable[0].code == NOT_RUNNING
            state = state.interrupted() if is_down else state.without_evaluations()
            return abstention(NAME, unusable, state.as_json())
        is_behind = has_backlog(obs, settings.backlog_threshold)
        state = replace(state.seen(obs), memory=state.memory.learned(obs, has_backlog=is_behind))
        needs = needs_of(obs, state.memory, _with_catch_up(given, arrivals, settings.catch_up), {})
        if state.is_due(obs.now, settings.interval):
            uneven = dict(_of_uneven_sources(obs, needs, settings.catch_up))
            state = state.evaluated(evaluate(obs, {**needs, **uneven}, settings), obs, settings)
        waiting = _waiting(state, settings)
        if waiting is not None:
            return abstention(NAME, (waiting, *lacking_rates(obs, needs)), state.as_json())
        return _decided(obs, state, needs, settings)


def _with_catch_up(given: PolicyInput, arrivals: SourceRates, catch_up: float) -> SourceRates:
    """Return what the sources have to sustain to be done with the backlog and a restart in time."""
    if catch_up <= 0:
        return arrivals
    backlog, outage = lags(given.obs), given.downtime.q90

    def sustained(rates: Mapping[VertexId, float]) -> dict[VertexId, float]:
        return {v: rate + (backlog[v] + rate * outage) / catch_up for v, rate in rates.items()}

    return SourceRates(sustained(arrivals.up), sustained(arrivals.down))


def _of_uneven_sources(
    obs: JobObservation, needs: Mapping[VertexId, Need], catch_up: float
) -> Iterator[tuple[VertexId, Need]]:
    """Yield what sources have to sustain to be done with their slowest partition; the rest gets no more than comes."""
    if catch_up <= 0:
        return
    even = lags(obs)
    for v, much in lags_to_drain(obs).items():
        up, down, more = needs[v].up, needs[v].down, (much - even[v]) / catch_up
        if more > 0.0 and up is not None and down is not None:
            yield v, replace(needs[v], up=up + more, down=down + more)


def _waiting(state: Ds2State, settings: Ds2Settings) -> Reason | None:
    """Return why nothing is decided yet; None when it is time."""
    count = len(state.evaluations)
    if count == 0 and settings.warm_up > 0:
        return Reason("WARM_UP", f"{state.ignored} of {settings.warm_up} evaluations that are ignored have passed")
    if count < settings.activation:
        return Reason("ACTIVATION", f"{count} of {settings.activation} evaluations in a row are there")
    return None


def _decided(obs: JobObservation, state: Ds2State, needs: Mapping[VertexId, Need], settings: Ds2Settings) -> Proposal:
    """Return what the evaluations so far come to."""
    is_behind, may_lower = has_backlog(obs, settings.backlog_threshold), not state.memory.is_blind(obs)
    plan = sized(combined(state.evaluations, settings.combine), needs, settings, may_lower=may_lower)
    if not plan.targets:
        return abstention(NAME, lacking_rates(obs, needs), state.as_json())
    rising = {v for v, target in plan.targets.items() if target > obs.vertices[v].parallelism}
    state = state.judged(obs, wants_more=bool(rising))
    is_stopped = bool(rising) and state.fruitless >= settings.max_fruitless
    targets = _worth_it(obs, _without(obs, plan.targets, rising) if is_stopped else plan.targets, settings)
    remarks = [_STOPPED] if is_stopped else []
    remarks += [] if may_lower else [nothing_lowered(has_backlog=is_behind)]
    return Proposal(
        policy=NAME,
        targets=targets,
        direction=direction_of(obs, targets),
        capacity=plan.capacity,
        confidence=len(targets) / len(obs.vertices),
        reasons=(
            *(change_reasons(obs, targets, plan.capacity) or [_ENOUGH]),
            *remarks,
            *_plan_remarks(obs, plan, settings),
            *lacking_rates(obs, needs),
            *lag_unknown(obs),
        ),
        blocks_down=is_behind,
        state=state.proposed(obs, targets).as_json(),
    )


_ENOUGH: Final = Reason("MINOR_CHANGE", "no vertex would change by enough subtasks to be worth a rescale")
_STOPPED: Final = Reason("FRUITLESS", "the last scale-ups brought next to nothing: no more of them")


def _without(obs: JobObservation, targets: Mapping[VertexId, int], rising: Set[VertexId]) -> dict[VertexId, int]:
    """Return the targets with some vertices as they are."""
    return {v: _kept(obs, v) if v in rising else target for v, target in targets.items()}


def _worth_it(obs: JobObservation, targets: Mapping[VertexId, int], settings: Ds2Settings) -> dict[VertexId, int]:
    """Return the targets, or everything as it is where no vertex changes by enough."""
    changes = [target - obs.vertices[v].parallelism for v, target in targets.items()]
    if any(change >= settings.least_up or -change >= settings.least_down for change in changes):
        return dict(targets)
    return {v: _kept(obs, v) for v in targets}


def _kept(obs: JobObservation, vertex_id: VertexId) -> int:
    vertex = obs.vertices[vertex_id]
    return subtasks(vertex.parallelism, vertex)


def _plan_remarks(obs: JobObservation, plan: Ds2Plan, settings: Ds2Settings) -> Iterator[Reason]:
    if plan.raised_by > 1.0:
        text = f"{plan.raised_by:.3g} times what the sources read arrives, although busy time says that it fits"
        yield Reason("TARGET_RATE_RATIO", text, None, (("ratio", plan.raised_by),))
    for vertex_id, wanted in plan.wanted.items():
        vertex = obs.vertices[vertex_id]
        if is_beyond(wanted, vertex):
            yield limited(vertex, wanted)
        if settings.is_skew_aware and (skew := skew_of(vertex)) > MOST_FOR_SKEW:
            text = f"{vertex.name}: one subtask does {skew:.3g} times what the average one does; is a key hot?"
            yield Reason("SKEW_SUSPECTED", text, vertex_id, (("skew", skew),))
