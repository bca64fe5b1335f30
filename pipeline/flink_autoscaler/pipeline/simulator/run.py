"""Backtests: the production pass under the clock of a simulation, pass after pass over a simulated job."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.outcome import without_reading
from flink_autoscaler.core.evaluate.downtime import ENOUGH
from flink_autoscaler.core.forecast.pass_forecast import Profiles, profiles_around
from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.load_profile import ProfileResult, bucket_start
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.reading import EMPTY_MEMORY
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.observe.required_facts import RequiredFacts, required_facts
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.core.ports.plugins import NO_PLUGINS, Plugins
from flink_autoscaler.pipeline.simulator.bounds import parallelism_for, work_area
from flink_autoscaler.pipeline.simulator.measures import Measures, Trace, measure
from flink_autoscaler.pipeline.simulator.metrics import JOB_ID, Reporter, ReportSettings
from flink_autoscaler.pipeline.simulator.model import FluidJob, JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.rescales import RescaleParams, RescalingJob, SimulatedRescale
from flink_autoscaler.pipeline.simulator.workloads import Workload

DT: Final = 5.0
"""Longest step of the simulation, seconds."""

_SHORTEST: Final = 1e-6

MONDAY_MS: Final = 1_699_833_600_000
"""2023-11-13, midnight UTC."""

JOB_KEY: Final = "simulation/job"
ENABLED: Final = "job.autoscaler.enabled"

_MINIMUM_UTILIZATION: Final = 0.01


def flow_until(job: RescalingJob, workload: Workload, instant: float, trace: Trace, *, dt: float = DT) -> None:
    """Let a job flow in steps of at most ``dt`` seconds that end where arrivals change, and note what is seen."""
    fluid = job.fluid
    while instant - fluid.now > _SHORTEST:
        row_end = (math.floor(fluid.now / workload.step + _SHORTEST) + 1) * workload.step
        arrivals = workload.at(row_end - workload.step / 2)
        stretch = min(instant, row_end) - fluid.now
        count = math.ceil(stretch / dt - _SHORTEST)
        job.flow_in_steps(stretch / count, count, arrivals, trace.add)


@dataclass(frozen=True)
class Simulation:
    """Simulation to run.

    Attributes:
        configuration: Of the job, as text by full key, such as ``job.autoscaler.utilization.target``; the autoscaler
            is on unless it says otherwise.
        plugins: Those that the daemon would have.
        terms: What a rescale costs.
        reports: How the cluster reports.
        initial: Parallelism at the beginning; None sizes the job for its first arrivals at the utilization target.
        interval: Seconds between passes.
        jitter: Seconds by which a pass may be late, evenly and by the seed of the reports. The passes of a daemon are,
            so that a metric window that is a multiple of the interval is full in one pass or only in the next one;
            with 0 it is full in the first of them.
        dt: Longest step of the simulation in seconds; passes and changes of the arrivals fall between steps.
        start_ms: Epoch milliseconds of the beginning.
        slo_lag: Lag in seconds above which the job is too late; None takes ``slo.lag`` of the job.
        profiles: Of the sources, from any number of nights; a pass has the newest that were there by then.
        outages: Milliseconds that rescales took other jobs of the cluster away, which counts until the job has measured
            enough itself. None: as long as those of ``terms``, since jobs were rescaled there before; empty: none were.
    """

    job: JobModel
    workload: Workload
    configuration: Mapping[str, str] = field(default_factory=dict)
    plugins: Plugins = NO_PLUGINS
    terms: RescaleParams = field(default_factory=RescaleParams)
    reports: ReportSettings = field(default_factory=ReportSettings)
    initial: Mapping[VertexId, int] | None = None
    interval: float = 60.0
    jitter: float = 0.0
    dt: float = DT
    start_ms: int = MONDAY_MS
    slo_lag: float | None = None
    profiles: Sequence[ProfileResult] = ()
    outages: tuple[int, ...] | None = None

    @property
    def known_outages(self) -> tuple[int, ...]:
        """Downtimes that the daemon has measured before the simulation begins, milliseconds."""
        return (round(self.terms.outage * 1000),) * ENOUGH if self.outages is None else self.outages


@dataclass(frozen=True, slots=True)
class SimulatedDecision:
    """A decision of a pass to rescale, and when it was made, seconds since the beginning."""

    instant: float
    decision: Rescale
    wanted: Mapping[VertexId, int]


@dataclass(frozen=True)
class BacktestResult:
    """Result of a simulation.

    Attributes:
        decisions: Of the passes, oldest first.
        rescales: What became of them.
        holds: How many passes held for every reason, by code.
        errors: Passes that an error ended, by text.
        rejected: Requests that came while a rescale was under way.
        final: What the autoscaler would remember.
    """

    measures: Measures
    trace: Trace
    decisions: tuple[SimulatedDecision, ...]
    rescales: tuple[SimulatedRescale, ...]
    holds: Mapping[str, int]
    errors: Mapping[str, int]
    rejected: int
    final: JobState


Watch = Callable[[PassOutcome, JobAutoScalerContext, int], None]
"""Told about every pass: what it found out, the job, and its instant in epoch milliseconds."""


def run(backtest: Simulation, watch: Watch | None = None) -> BacktestResult:
    """Simulate a workload from its beginning to its end.

    Args:
        backtest: What is to be simulated.
        watch: Sees the passes in their order, as the metric history of the daemon would.

    Raises:
        ValueError: The workload has another number of sources than the job.
        ConfigError: An option of the job cannot be read.
    """
    if len(backtest.workload.rows[0]) != len(backtest.job.sources):
        raise ValueError(f"{backtest.workload.name} has rates for {len(backtest.workload.rows[0])} sources")
    return _Run(backtest, watch).finish()


class _Run:
    """The working values of one backtest."""

    def __init__(self, backtest: Simulation, watch: Watch | None) -> None:
        self._given, self._watch = backtest, watch
        self._context = _context(backtest)
        self._contexts = {JobStatus.RUNNING: self._context}
        first = backtest.initial or self._first_size()
        self._job = RescalingJob(FluidJob(backtest.job, first), backtest.terms)
        self._reporter = Reporter(self._job, backtest.reports, backtest.start_ms)
        self._trace = Trace()
        self._state, self._memory = EMPTY_STATE, EMPTY_MEMORY
        self._ordered = sorted(backtest.profiles, key=lambda each: each.asof)
        self._looked: tuple[int, int] | None = None
        self._around: Profiles = {}
        self._decisions: list[SimulatedDecision] = []
        self._holds: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._chance = random.Random(backtest.reports.seed)  # noqa: S311 - a simulation has to be repeatable

    def _first_size(self) -> dict[VertexId, int]:
        job, target = self._given.job, max(_MINIMUM_UTILIZATION, self._context.options.utilization_target)
        demand = job.demand(self._given.workload.rows[0])
        return {v.vertex_id: _parallelism(v, demand[v.vertex_id] / target) for v in job.vertices}

    def finish(self) -> BacktestResult:
        """Go through the whole workload."""
        end, interval = self._given.workload.duration, self._given.interval
        for number in range(1, math.ceil(end / interval) + 1):
            self._pass_at(min(end, number * interval + self._late()))
        return self._result()

    def _pass_at(self, instant: float) -> None:
        """Go on to an instant and do a pass there."""
        for due in self._reporter.updates(instant):
            self._flow_until(due)
            self._reporter.update()
        self._flow_until(instant)
        self._apply_outcome(self._run_pass())

    def _late(self) -> float:
        """Return by how many seconds a pass is late."""
        jitter = self._given.jitter
        return self._chance.uniform(0.0, jitter) if jitter else 0.0

    def _flow_until(self, instant: float) -> None:
        flow_until(self._job, self._given.workload, instant, self._trace, dt=self._given.dt)

    def _run_pass(self) -> PassOutcome:
        """Do one pass as the daemon does, with the answers of the simulated cluster."""
        now_ms = self._reporter.at_ms(self._job.fluid.now)
        profiles = self._profiles(now_ms / 1000)
        outages = self._given.known_outages
        request = PassRequest(
            self._context_now(), self._state, now_ms, self._memory, profiles=profiles, outages=outages
        )
        reading = self._reporter.read(self._memory, with_facts=required_facts(request) is not RequiredFacts.NOTHING)
        outcome = without_reading(request)
        if outcome is None:
            outcome = advance(request, reading, self._reporter.read_cluster(), self._given.plugins)
        if self._watch is not None:
            self._watch(outcome, request.context, now_ms)
        return outcome

    def _profiles(self, now: float) -> Profiles:
        """Return what a daemon would have of the profiles; it is the same for a quarter of an hour."""
        made = [each for each in self._ordered if each.asof <= now]
        looked = (bucket_start(now), len(made))
        if looked != self._looked:
            self._looked, self._around = looked, profiles_around({each.source_id: each for each in made}, now)
        return self._around

    def _context_now(self) -> JobAutoScalerContext:
        status = self._reporter.status
        if status not in self._contexts:
            self._contexts[status] = replace(self._context, status=status)
        return self._contexts[status]

    def _apply_outcome(self, outcome: PassOutcome) -> None:
        """Remember what the pass found out, and ask the cluster for what it wants."""
        self._state, self._memory = outcome.state, outcome.memory
        if isinstance(outcome.decision, Hold):
            self._holds.update(reason.code for reason in outcome.decision.reasons)
        else:
            self._decisions.append(
                SimulatedDecision(self._job.fluid.now, outcome.decision, dict(outcome.target.parallelism))
            )
        if outcome.error is not None:
            self._errors[str(outcome.error)] += 1
        if outcome.target.parallelism:
            self._job.request(outcome.target.parallelism)

    def _result(self) -> BacktestResult:
        given, job = self._given, self._job
        limit = self._context.options.slo_lag.seconds if given.slo_lag is None else given.slo_lag
        least = work_area(given.job, given.workload)
        return BacktestResult(
            measure(self._trace, job.rescales, slo_lag=limit, min_slot_seconds=least),
            self._trace,
            tuple(self._decisions),
            tuple(job.rescales),
            dict(self._holds),
            dict(self._errors),
            job.rejected,
            self._state,
        )


def _parallelism(vertex: VertexModel, demand: float) -> int:
    try:
        return parallelism_for(vertex, demand)
    except ValueError:
        return vertex.max_parallelism


def _context(backtest: Simulation) -> JobAutoScalerContext:
    configuration = {ENABLED: "true", "jobmanager.scheduler": "adaptive", **backtest.configuration}
    return JobAutoScalerContext(
        JOB_KEY,
        JOB_ID,
        JobStatus.RUNNING,
        configuration,
        Endpoint("http://simulation"),
        job_name="simulated job",
        cluster="simulation",
    )
