"""Pages without a history: jobs, some of which have names, vertices and reasons that mean harm."""

from __future__ import annotations

from flink_autoscaler.pipeline.backtest.case import BacktestCase, SkippedJob
from flink_autoscaler.pipeline.backtest.compare import Comparison, compare_outcomes
from flink_autoscaler.pipeline.backtest.plan import BacktestPlan, Candidate, OracleBounds, SimulationResult, Timeseries
from flink_autoscaler.pipeline.reports.report import (
    AttentionReason,
    JobSection,
    Report,
    ReportForecast,
    ReportMetrics,
    ReportPeriod,
    Series,
)
from flink_autoscaler.pipeline.simulator.measures import Measures
from flink_autoscaler.pipeline.simulator.model import JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.workloads import sine
from testkit.builders.reports import NOON

EVIL = "\"'><img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'</script>"
"""What gets out of attributes, elements and scripts, and runs where it does."""

DAY = ReportPeriod.of(NOON - 86_400, NOON)


def a_report() -> Report:
    """Make the report."""
    well = _figures("main/orders", ())
    evil = _figures(f"main/{EVIL}", (AttentionReason("paused", f"since a crash loop {EVIL}"),))
    few = ReportMetrics("yarn/new", "yarn", 3)
    return Report(
        title=f"Fleet {EVIL}",
        period=DAY,
        made_at=float(NOON),
        jobs=(evil, well, few),
        sections=(
            _section(evil, EVIL, ReportForecast(problem=f"too little history {EVIL}")),
            _section(well, "map", ReportForecast(_wave(0.9), _wave(1.2), 0.12, 0.05)),
        ),
        fleet={"slots": _wave(12), "load": _wave(900), "late": _wave(1), "rescales": _wave(2)},
        slo_lag=60.0,
        warnings=(f"1 file was damaged {EVIL}",),
        notes=(f"yarn/new: only 3 passes {EVIL}",),
    )


def _figures(key: str, concerns: tuple[AttentionReason, ...]) -> ReportMetrics:
    return ReportMetrics(
        job_key=key,
        cluster=f"main {EVIL}",
        passes=1440,
        status="RUNNING",
        slot_hours=120.0,
        static_hours=192.0,
        peak=8,
        load=400.0,
        lag_seconds=150.0,
        late_minutes=60.0,
        rescales=1,
        outage=12.0,
        failed=1,
        concerns=concerns,
    )


def _section(figures: ReportMetrics, name: str, forecast: ReportForecast) -> JobSection:
    rescale = {
        "at": NOON - 3600.0,
        "changes": [f"{name} 4 → 6", "map 4 → 6"],
        "origin": "autoscaler",
        "mechanism": "inplace",
        "stage": "refused",
        "reason": f"too few slots {name}",
        "outage": 12.0,
        "reverted": False,
        "is_bad": True,
    }
    series = {
        "load": _wave(400),
        "capacity": _wave(500),
        "slots": _wave(8),
        "lag": _wave(1) if name == "map" else [0.0] * DAY.count,
        "lag_seconds": _wave(60),
    }
    vertices = [(name, _wave(8)), ("source", [1] * DAY.count)]
    return JobSection(figures, series, vertices, [rescale], forecast)


def _wave(top: float) -> Series:
    """Return a value per bucket, every tenth not known."""
    return [None if bucket % 10 == 0 else top * (bucket % 50) / 50 for bucket in range(DAY.count)]


def a_comparison() -> Comparison:
    """Make a comparison of two configurations, one of which has a name that means harm, over one such job."""
    job = JobModel((VertexModel("a" * 32, "Source", 100.0),), {})
    subject = BacktestCase(f"main/{EVIL}", job, sine(), notes=(f"Something had to be assumed {EVIL}.",))
    plan = BacktestPlan((subject,), (Candidate("usual", {}), Candidate(EVIL, {})), (SkippedJob("main/new", EVIL),))
    figures = Measures(21_600.0, 24.0, 2, 1, 0, 0.0, 5.0, 9.0, 60.0, 120.0, 0.0, 0.5, 25.0)
    runs = [
        SimulationResult(
            subject.job_key, candidate.name, figures, curves=Timeseries(slots=_steady(4), lags=_steady(60))
        )
        for candidate in plan.candidates
    ]
    curves = Timeseries(arrivals=_steady(900), oracle=_steady(3), busy=_steady(2))
    bounds = SimulationResult(subject.job_key, None, bounds=OracleBounds(12.0, 14.0, None, 30.0), curves=curves)
    return compare_outcomes(plan, [*runs, bounds])


def _steady(height: float) -> tuple[float, ...]:
    return tuple(each or 0.0 for each in _wave(height))
