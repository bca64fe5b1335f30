"""Computes what comes of one job with one configuration."""

from __future__ import annotations

import gc
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Final, TypeVar

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.core.options.checks import validate
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.policy_runner import unknown_policies
from flink_autoscaler.pipeline.backtest.case import BacktestCase
from flink_autoscaler.pipeline.backtest.nightly_profiles import nightly_profiles_of, profile_remarks
from flink_autoscaler.pipeline.backtest.plan import OracleBounds, SimulationResult, SimulationTask, Timeseries
from flink_autoscaler.pipeline.simulator.bounds import (
    OracleParams,
    busy_slots,
    instant_rescaling_slots,
    oracle,
    static_peak,
    work_area,
)
from flink_autoscaler.pipeline.simulator.measures import Measures, Trace, measure
from flink_autoscaler.pipeline.simulator.run import ENABLED, BacktestResult, Simulation, Watch, run
from flink_autoscaler.pipeline.simulator.workloads import DAY, HOUR

T = TypeVar("T")

POINTS: Final = 240
"""Of a curve in a report."""

MIN_DAYS: Final = 2
"""Days without which none can be kept."""

_YOUNG: Final = 10_000
"""New objects after which the new ones are looked at; with ten times as many, those of ``slo`` take 50 MB more."""

_SHARE: Final = 1 / 3
_WEEK: Final = 7


def simulate_task(piece: SimulationTask, watch: Watch | None = None) -> SimulationResult:
    """Run a piece with the plug-ins of this process; what goes wrong is in the outcome.

    Args:
        piece: What is computed.
        watch: Sees the passes in their order.
    """
    subject = piece.subject
    if piece.configuration is None:
        return _compute_bounds(subject)
    try:
        if problem := configuration_problem(piece.options):
            return SimulationResult(subject.job_key, piece.configuration, problem=problem)
        with _defer_garbage_collection():
            nights = nightly_profiles_of(subject, piece.options)
            result = run(_backtest(piece, [night.result for night in nights]), watch)
    except Exception as error:  # policies of plug-ins run in it, and one broken job must not end all others
        return SimulationResult(subject.job_key, piece.configuration, problem=f"{type(error).__name__}: {error}")
    return SimulationResult(
        subject.job_key,
        piece.configuration,
        figures=result.measures,
        curves=_curves(result),
        holds=dict(result.holds),
        errors=dict(result.errors),
        passes=math.ceil(subject.workload.duration / piece.settings.interval),
        parts=_parts(piece, result),
        notes=tuple(profile_remarks(nights, subject.model.names)),
    )


@contextmanager
def _defer_garbage_collection() -> Iterator[None]:
    """Look for cyclic garbage less often: nearly all that passes leave behind goes by itself."""
    before = gc.get_threshold()
    gc.set_threshold(_YOUNG)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _parts(piece: SimulationTask, result: BacktestResult) -> tuple[Measures, Measures] | None:
    """Return the figures of what options are chosen on, and of what comes after."""
    duration = piece.subject.workload.duration
    seen = training_seconds(duration) if piece.settings.is_divided else None
    return None if seen is None else (_part(piece, result, 0.0, seen), _part(piece, result, seen, duration))


def _part(piece: SimulationTask, result: BacktestResult, since: float, until: float) -> Measures:
    rescales = [each for each in result.rescales if since <= each.requested < until]
    least = work_area(piece.subject.model, piece.subject.workload.part(since, until))
    limit = AutoscalerOptions(piece.options).slo_lag.seconds
    part = result.trace.part(since, until)
    return measure(part, rescales, slo_lag=limit, min_slot_seconds=least)


def training_seconds(duration: float) -> float | None:
    """Return how many seconds at the beginning options are chosen on; None where the time is too short to be divided.

    The last third is kept, in whole days: of two weeks and more at least one week, so that every day of the week is
    in both.
    """
    days = math.floor(duration / DAY)
    if days < MIN_DAYS:
        return None
    kept = max(1, round(days * _SHARE), _WEEK if days >= 2 * _WEEK else 0)
    return duration - kept * DAY


def configuration_problem(configuration: Mapping[str, str]) -> str | None:
    """Return why passes would do nothing with a configuration of a job; None where nothing is wrong with it.

    Raises:
        ValueParseError: An option cannot be read.
    """
    options = AutoscalerOptions({ENABLED: "true", **configuration})
    if not options.enabled:
        return None
    return validate(options) or unknown_policies(options, installed_plugins().policies)


def _backtest(piece: SimulationTask, profiles: Sequence[ProfileResult]) -> Simulation:
    subject = piece.subject
    return Simulation(
        subject.model,
        subject.workload,
        piece.options,
        plugins=installed_plugins(),
        terms=subject.terms,
        initial=subject.initial,
        interval=piece.settings.interval,
        dt=piece.settings.dt,
        start_ms=subject.start_ms,
        profiles=profiles,
    )


def _compute_bounds(subject: BacktestCase) -> SimulationResult:
    """Work out what is possible for a job, and the curves of what arrives and of the bounds."""
    job, workload = subject.model, subject.workload
    plan = _bound_or_none(
        lambda: oracle(job, workload, OracleParams(outage=subject.outage, replay=subject.terms.replay))
    )
    bounds = OracleBounds(
        work_area(job, workload) / HOUR,
        _bound_or_none(lambda: instant_rescaling_slots(job, workload) / HOUR),
        None if plan is None else plan.cost / HOUR,
        _bound_or_none(lambda: static_peak(job, workload) / HOUR),
    )
    curves = Timeseries(
        arrivals=_downsample([sum(row) for row in workload.rows]),
        oracle=() if plan is None else _downsample(plan.by_step(len(workload.rows))),
        busy=_downsample(busy_slots(job, workload)),
    )
    return SimulationResult(subject.job_key, None, bounds=bounds, curves=curves)


def _bound_or_none(bound: Callable[[], T]) -> T | None:
    """Return a bound; None where some demand is too much for the job, or the bound does not know such jobs."""
    try:
        return bound()
    except ValueError:
        return None


def _curves(result: BacktestResult) -> Timeseries:
    trace = result.trace
    parts = _cuts(trace)
    return Timeseries(
        slots=tuple(fmean(trace.slots[a:b], trace.seconds[a:b]) for a, b in parts),
        lags=tuple(max(trace.lags[a:b]) for a, b in parts),
    )


def _downsample(values: Sequence[float]) -> tuple[float, ...]:
    """Return means over equal parts, as many as a curve has at most."""
    count = min(POINTS, len(values))
    cuts = [len(values) * number // count for number in range(count + 1)]
    return tuple(fmean(values[a:b]) for a, b in pairwise(cuts))


def _cuts(trace: Trace) -> list[tuple[int, int]]:
    """Divide the steps into parts of about equal time, none empty."""
    ends = list(accumulate(trace.seconds))
    count = min(POINTS, len(ends))
    cuts = sorted({0, len(ends), *(bisect_left(ends, ends[-1] * number / count) for number in range(1, count))})
    return list(pairwise(cuts))
