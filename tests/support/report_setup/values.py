"""A report without a history: two jobs, one of which has a name, vertices and reasons that mean harm."""

from __future__ import annotations

from flink_autoscaler.pipeline.reports.measures import Concern, JobFigures
from flink_autoscaler.pipeline.reports.period import Period
from flink_autoscaler.pipeline.reports.report import (
    FleetSeries,
    ForecastLine,
    JobSection,
    Report,
    RescaleLine,
    Series,
    VertexLine,
)
from report_setup import NOON

EVIL = "\"'><img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'</script>"
"""What gets out of attributes, elements and scripts, and runs where it does."""

DAY = Period.of(NOON - 86_400, NOON)


def a_report() -> Report:
    """Make the report."""
    well = _figures("main/orders", ())
    evil = _figures(f"main/{EVIL}", (Concern("paused", f"since a crash loop {EVIL}"),))
    few = JobFigures("yarn/new", "yarn", 3)
    return Report(
        title=f"Fleet {EVIL}",
        period=DAY,
        made_at=float(NOON),
        jobs=(evil, well, few),
        sections=(
            _section(evil, EVIL, ForecastLine(problem=f"too little history {EVIL}")),
            _section(well, "map", ForecastLine(_wave(0.9), _wave(1.2), 0.12, 0.05)),
        ),
        fleet=FleetSeries(slots=_wave(12), load=_wave(900), late=_wave(1), rescales=_wave(2)),
        slo_lag=60.0,
        warnings=(f"1 file was damaged {EVIL}",),
        notes=(f"yarn/new: only 3 passes {EVIL}",),
    )


def _figures(key: str, concerns: tuple[Concern, ...]) -> JobFigures:
    return JobFigures(
        job_key=key,
        cluster=f"main {EVIL}",
        passes=1440,
        first=DAY.since,
        last=DAY.until - 60,
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


def _section(figures: JobFigures, name: str, forecast: ForecastLine) -> JobSection:
    rescale = RescaleLine(
        at=NOON - 3600.0,
        changes=(f"{name} 4 → 6", "map 4 → 6"),
        origin="autoscaler",
        mechanism="inplace",
        stage="refused",
        reason=f"too few slots {name}",
        outage=12.0,
        is_reverted=False,
    )
    return JobSection(
        figures=figures,
        load=_wave(400),
        capacity=_wave(500),
        slots=_wave(8),
        lag=_wave(1) if name == "map" else [0.0] * DAY.count,
        lag_seconds=_wave(60),
        vertices=(VertexLine(name, _wave(8)), VertexLine("source", [1] * DAY.count)),
        rescales=(rescale,),
        forecast=forecast,
    )


def _wave(top: float) -> Series:
    """Return a value per bucket, every tenth not known."""
    return [None if bucket % 10 == 0 else top * (bucket % 50) / 50 for bucket in range(DAY.count)]
