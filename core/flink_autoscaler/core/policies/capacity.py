"""The policy ``capacity``: enough true rate for the load at the target utilization and for catching up (FLIP-271)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from flink_autoscaler.core.evaluate.evaluation import (
    EvaluationSettings,
    held_back,
    is_processing_backlog,
    output_ratios,
    rate_thresholds,
    unless_held_back,
)
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, ScalingMetric, VertexId, avg
from flink_autoscaler.core.model.policy_values import (
    JobObservation,
    Outage,
    PolicyInput,
    Proposal,
    ProposalDirection,
    VertexObs,
    VertexSizing,
)
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.observe.window import window_of
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.proposals import (
    HELD_BACK,
    abstention,
    change_reasons,
    direction_from,
    direction_of,
    held_back_reasons,
    held_back_text,
    lacking_rates,
    lag_unknown,
    limited,
    not_sizable,
    nothing_lowered,
)
from flink_autoscaler.core.policies.base.quantities import (
    GREATEST,
    Memory,
    Need,
    SourceRates,
    expected_arrivals,
    has_backlog,
    held_back_sources,
    is_beyond,
    lags,
    needs_of,
    present_arrivals,
    shares_of,
    subtasks,
)
from flink_autoscaler.core.policies.base.sizing import SizingSettings, sized_vertices
from flink_autoscaler.core.ports.passes import EvaluatedJob


@value
class CapacitySettings:
    """What sizing by capacity goes by.

    Attributes:
        target: Utilization that is aimed for.
        upper: Utilization above which a scale-up is due.
        lower: Utilization below which a scale-down is due.
        catch_up: Seconds in which a backlog should be gone; 0 plans nothing for it.
        least_factor: Least factor between new and current parallelism.
        greatest_factor: Greatest such factor.
        backlog_threshold: Seconds of input above which the lag of a source is a backlog.
        outage: Of the next rescale.
        may_lower: Whether a vertex may be lowered at all.
        effectiveness: Least share of the expected gain that a scale-up has to bring; None where that is not looked at.
    """

    target: float
    upper: float
    lower: float
    catch_up: float
    least_factor: float
    greatest_factor: float
    backlog_threshold: float
    outage: Outage
    may_lower: bool = True
    effectiveness: float | None = None

    @classmethod
    def of(cls, config: Mapping[str, str], outage: Outage) -> CapacitySettings:
        """Read the options of a job.

        Raises:
            ConfigError: A value cannot be read.
        """
        options = AutoscalerOptions.of(config)
        sizing, bounds = SizingSettings.of(options, 0), EvaluationSettings.of(options, 0)
        return cls(
            target=sizing.utilization_target,
            upper=min(1.0, bounds.utilization_max),
            lower=max(0.0, bounds.utilization_min),
            catch_up=options.catch_up_duration.exact_seconds,
            least_factor=max(0.0, sizing.least_factor),
            greatest_factor=sizing.greatest_factor,
            backlog_threshold=options.backlog_lag_threshold.exact_seconds,
            outage=outage,
            effectiveness=options.effectiveness_threshold if options.effectiveness_detection else None,
        )

    def with_backlog(self) -> CapacitySettings:
        """Return the settings for a job with a backlog: up only where full use does not suffice, never down."""
        return replace(self, upper=1.0, lower=0.0, may_lower=False)

    def without_lowering(self) -> CapacitySettings:
        """Return the settings with which nothing is lowered."""
        return replace(self, lower=0.0, may_lower=False)


@value
class VertexLoad:
    """What arrives at one vertex.

    Attributes:
        rate: Records/s.
        lag: Records of the backlog that will come along.
    """

    rate: float
    lag: float


def needed_capacity(load: VertexLoad, settings: CapacitySettings) -> float:
    """Return the records/s that a vertex should be able to process when always busy."""
    return min(_with_outage(load, settings, settings.target), GREATEST)


def most_capacity(load: VertexLoad, settings: CapacitySettings) -> float:
    """Return the records/s above which a scale-down is due; infinite where none is permitted."""
    return _with_outage(load, settings, settings.lower)


def least_capacity(load: VertexLoad, settings: CapacitySettings) -> float:
    """Return the records/s below which a scale-up is due; no outage is planned for, as there may be none."""
    steady = _steady(load, settings.upper)
    if settings.catch_up <= 0:
        return steady
    return steady + load.lag / settings.catch_up


def _with_outage(load: VertexLoad, settings: CapacitySettings, utilization: float) -> float:
    steady, outage = _steady(load, utilization), settings.outage
    if settings.catch_up <= 0:
        return steady
    return steady + (load.lag + load.rate * outage.q90) / settings.catch_up


def _steady(load: VertexLoad, utilization: float) -> float:
    return load.rate / utilization if utilization > 0 else math.inf


@value
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
    return {v: _limited_by(sizing, needs[v], shares[v], settings) for v, sizing in sizings.items()}


def size(need: Need, settings: CapacitySettings) -> SizedVertex | None:
    """Size one vertex; None when its need or its rate is not known. One that needs nothing has no need of a rate."""
    if need.up is None or need.down is None:
        return None
    vertex = need.vertex
    if max(need.up, need.down, need.lag) == 0.0:
        return SizedVertex(vertex, 0.0, 0.0, _target_of(vertex, 0.0, 0.0, settings), is_outside=True)
    if need.rate is None:
        return None
    present = min(need.rate * vertex.parallelism, GREATEST)
    rising, falling = VertexLoad(need.up, need.lag), VertexLoad(max(need.up, need.down), need.lag)
    wanted, kept = (needed_capacity(load, settings) / need.rate for load in (rising, falling))
    target = _target_of(vertex, wanted, kept, settings)
    capacity = needed_capacity(falling if target < vertex.parallelism else rising, settings)
    is_outside = not least_capacity(rising, settings) <= present <= most_capacity(falling, settings)
    return SizedVertex(vertex, capacity, wanted, target, is_outside)


def _target_of(vertex: VertexObs, wanted: float, kept: float, settings: CapacitySettings) -> int:
    """Return the parallelism for ``wanted`` subtasks, or where that is fewer than now, for ``kept`` ones."""
    rising = _stepped(vertex, wanted, settings)
    if rising >= vertex.parallelism:
        return rising
    least = _stepped(vertex, kept, settings) if settings.may_lower else vertex.parallelism
    return min(max(rising, least), vertex.parallelism, vertex.max_parallelism)


def _stepped(vertex: VertexObs, wanted: float, settings: CapacitySettings) -> int:
    factor = min(max(wanted / vertex.parallelism, settings.least_factor), settings.greatest_factor)
    return subtasks(factor * vertex.parallelism, vertex)


def _limited_by(sizing: SizedVertex, need: Need, share: float, settings: CapacitySettings) -> SizedVertex:
    """Return the sizing for what gets past a bottleneck, where that keeps the vertex from going up so far."""
    if share >= 1.0 or sizing.target <= sizing.vertex.parallelism or need.up is None or need.down is None:
        return sizing
    part = replace(need, up=need.up * share, down=need.down * share, lag=need.lag * share)
    smaller = size(part, settings)
    if smaller is None:
        return sizing
    target = min(max(smaller.target, sizing.vertex.parallelism), sizing.target)
    return replace(sizing, target=target, capacity=smaller.capacity)


NAME: Final = "capacity"


class CapacityPolicy:
    """Keeps the use of every vertex near the target; never lowers a job that is processing a backlog.

    A job is left alone while every vertex that would change is within the utilization bounds. Where a forecast expects
    more than arrives now, the job is sized for that: it goes up before the load comes, and not down where that would
    have to be undone soon.
    """

    @property
    def name(self) -> str:
        """The word it is chosen by."""
        return NAME

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do for an observation; what a vertex can do is remembered for a day.

        Raises:
            ConfigError: A setting is invalid.
        """
        obs, present = given.obs, present_arrivals(given.obs).up
        arrivals = expected_arrivals(
            present, given.demand or {}, AutoscalerOptions.of(given.config).forecast_cap_factor
        )
        unusable = not_sizable(obs)
        if unusable:
            return abstention(NAME, unusable, given.state)
        view = _View.of(given, arrivals)
        if not view.sizings:
            return abstention(NAME, lacking_rates(obs, view.needs), view.memory.as_json())
        proposal, names = _proposal(obs, view), {v: vertex.name for v, vertex in obs.vertices.items()}
        return replace(proposal, reasons=(*proposal.reasons, *_expectations(names, present, arrivals)))

    def size(self, job: EvaluatedJob, ceilings: Mapping[VertexId, int]) -> Proposal:
        """Return what it would do about a job whose rates were evaluated, as the reference does; nothing is observed.

        Args:
            job: In a pass.
            ceilings: Greatest parallelism by vertex, where it is not just that of its bounds.

        Raises:
            AutoscalerError: The job cannot be sized.
        """
        sized, reasons = _sized_ahead(job) if job.demand else sized_vertices(job)
        if job.context.options.is_improved:
            behind = held_back(job.topology, window_of(job.state.samples))
            reasons += tuple(Reason(HELD_BACK, held_back_text(each.name), each.vertex_id) for each in behind)
        sizings = {v: sizing.under(ceilings[v]) if v in ceilings else sizing for v, sizing in sized.items()}
        current = {v: sizing.current for v, sizing in sizings.items()}
        due = [v for v, sizing in sizings.items() if sizing.is_outside and sizing.target != sizing.current]
        targets = {v: sizing.target for v, sizing in sizings.items()} if due else current
        return Proposal(
            policy=NAME,
            targets=targets,
            direction=direction_from(current, targets) if due else ProposalDirection.NONE,
            capacity={v: sizing.capacity for v, sizing in sizings.items()},
            confidence=len(sizings) / len(job.topology.vertices),
            reasons=reasons,
            sizings=sizings,
        )


def _sized_ahead(job: EvaluatedJob) -> tuple[dict[VertexId, VertexSizing], tuple[Reason, ...]]:
    """Size the vertices up for what is expected until that would have caught up, and down for what comes later."""
    topology, options = job.topology, job.context.options
    # The expected load comes however long the restart takes, so that a slow one is planned for instead of a usual one.
    restart = job.restart_time if job.outage is None else max(job.restart_time, math.ceil(job.outage.q90))
    settings = EvaluationSettings.of(options, restart)
    present = {v: job.metrics.vertices[v][ScalingMetric.TARGET_DATA_RATE].average for v in job.demand or {}}
    expected = expected_arrivals(present, job.demand or {}, options.forecast_cap_factor)

    def sized(arrivals: Mapping[VertexId, float]) -> tuple[dict[VertexId, VertexSizing], tuple[Reason, ...]]:
        return sized_vertices(replace(job, metrics=_with_arrivals(job, settings, arrivals), restart_time=restart))

    (sizings, reasons), (later, _) = sized(expected.up), sized(expected.down)
    falling = {v: later[v] for v, sizing in sizings.items() if sizing.target < sizing.current and v in later}
    sizings |= {v: replace(each, target=min(each.target, each.current)) for v, each in falling.items()}
    names = {v: vertex.name for v, vertex in topology.vertices.items()}
    return sizings, (*reasons, *_expectations(names, present, expected))


def _with_arrivals(
    job: EvaluatedJob, settings: EvaluationSettings, arrivals: Mapping[VertexId, float]
) -> EvaluatedMetrics:
    """Return the metrics with target rates, and the bands around them, for what arrives at sources beyond the present.

    A source of which less arrives, or nothing is told, stays as it is, as does what is behind an edge of which nothing
    is known.
    """
    topology, window = job.topology, window_of(job.state.samples)
    extra, vertices = dict[VertexId, float](), dict(job.metrics.vertices)
    has_backlog, is_improved = is_processing_backlog(topology, window, settings), settings.is_improved
    settings = unless_held_back(settings, topology, window)
    for vertex_id, vertex in topology.vertices.items():
        target = vertices[vertex_id][ScalingMetric.TARGET_DATA_RATE].average
        ratios = output_ratios(topology, window, vertex, is_strict=is_improved, is_balanced=is_improved)
        more = sum(extra[upstream] * ratio for upstream, ratio in ratios.items())
        extra[vertex_id] = arrivals.get(vertex_id, target) - target if vertex.is_source else more
        if extra[vertex_id] > 0:
            raised = {**vertices[vertex_id], ScalingMetric.TARGET_DATA_RATE: avg(target + extra[vertex_id])}
            vertices[vertex_id] = {**raised, **rate_thresholds(raised, settings, has_backlog=has_backlog)}
    return replace(job.metrics, vertices=vertices)


def _expectations(
    names: Mapping[VertexId, str], present: Mapping[VertexId, float], expected: SourceRates
) -> Iterator[Reason]:
    for v, now in present.items():
        up, down = expected.up[v], expected.down[v]
        if down > now:
            text = f"{names[v]}: {up:.6g} records/s expected soon, {down:.6g} later, {now:.6g} arrive now"
            yield Reason("FORECAST_HIGHER", text, v, (("now", now), ("soon", up), ("later", down)))


@value
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
    is_held_back: bool = False

    @classmethod
    def of(cls, given: PolicyInput, arrivals: SourceRates) -> _View:
        obs, settings = given.obs, CapacitySettings.of(given.config, given.downtime)
        is_behind = has_backlog(obs, settings.backlog_threshold)
        memory = Memory.read(given.state, obs).learned(obs, has_backlog=is_behind)
        if memory.is_blind(obs):
            settings = settings.with_backlog() if is_behind else settings.without_lowering()
        held = bool(held_back_sources(obs)) and not is_behind
        if held:
            settings = replace(settings.without_lowering(), upper=settings.target)
        needs = needs_of(obs, memory, arrivals, lags(obs))
        sizings = sizings_of(needs, settings)
        ineffective = _ineffective(sizings, memory, settings.effectiveness)
        kept = {v: replace(sizings[v], target=sizings[v].vertex.parallelism) for v in ineffective}
        return cls(settings, memory, needs, {**sizings, **kept}, ineffective, is_behind, is_held_back=held)


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
    if view.is_held_back:
        yield from held_back_reasons(obs)
    elif not view.settings.may_lower:
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
