"""Makes a report of a history: reads the tables, aggregates them in Spark, and puts the rows together."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.job import profiles_of, results
from flink_autoscaler.pipeline.reports import aggregate
from flink_autoscaler.pipeline.reports.report import (
    JobSection,
    Report,
    ReportForecast,
    ReportMetrics,
    ReportPeriod,
    Row,
    Series,
    format_utc,
    report_metrics,
)
from flink_autoscaler.pipeline.spark.supply import SparkLostError, reason_of
from flink_autoscaler.pipeline.tables.files import Files, HistoryError
from flink_autoscaler.pipeline.tables.schema import DECISIONS, RESCALES, SAMPLES, VERTICES, HistoryTable
from flink_autoscaler.pipeline.tables.spark_files import TableRead, read
from flink_autoscaler.pipeline.tables.store import HistoryFilter, jobs_like

NOTHING_BEFORE = "the history before the period has nothing about this job"

_SERIES = ("load", "capacity", "slots", "lag", "lag_seconds")
_SHOWN_VERTICES = 8
_SHOWN_DAMAGED = 5


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """Request for a report. Instants are epoch seconds.

    Attributes:
        since: First instant.
        until: The instant after the last; None takes the present.
        now: The present.
        clusters: Names; None takes all.
        jobs: Pattern for keys of jobs, or what follows their cluster; None takes all.
        sections: Jobs that are shown in detail at most.
        slo_lag: Seconds of lag that are allowed.
        profiles: How forecasts for the period are made; None makes none.
    """

    since: float
    until: float | None
    now: float
    clusters: frozenset[str] | None = None
    jobs: str | None = None
    sections: int = 50
    slo_lag: float = 60.0
    profiles: ProfileSettings | None = None
    title: str = "Fleet report"

    @property
    def period(self) -> ReportPeriod:
        """The time that the report is about."""
        return ReportPeriod.of(self.since, self.now if self.until is None else self.until)


def build_report(spark: SparkSession, files: Files, wanted: ReportRequest) -> Report:
    """Make a report.

    Raises:
        MissingHistoryError: There is no such history.
        HistoryError: It cannot be listed, or has nothing that is wanted.
        SparkLostError: Spark failed.
    """
    try:
        return _build_report(spark, files, wanted)
    except AutoscalerError:
        raise
    except Exception as exc:  # py4j, pyspark and Spark raise dozens of kinds when a job fails
        raise SparkLostError(f"the report could not be made: {reason_of(exc)}") from exc


def _build_report(spark: SparkSession, files: Files, wanted: ReportRequest) -> Report:
    tables = _Tables(spark, files, wanted)
    period = wanted.period
    passes = aggregate.passes(tables.frame(VERTICES), tables.frame(SAMPLES))
    buckets = aggregate.job_buckets(passes, period, slo_lag=wanted.slo_lag).persist()  # several queries need them
    try:
        jobs = _jobs(tables, buckets, period)
        if not jobs:
            raise HistoryError(tables.nothing())
        shown = select_jobs_to_show([job for job in jobs if not job.is_too_short], wanted.sections)
        return Report(
            title=wanted.title,
            period=period,
            made_at=wanted.now,
            jobs=jobs,
            sections=list(_sections(tables, buckets, period, shown)),
            fleet=_fleet(tables, buckets, period),
            slo_lag=wanted.slo_lag,
            warnings=tuple(tables.damage()),
            notes=tuple(_notes(jobs, shown)),
        )
    finally:
        buckets.unpersist()


@dataclass
class _Tables:
    """The tables of the history, as far as they are wanted."""

    spark: SparkSession
    files: Files
    wanted: ReportRequest
    reads: dict[str, TableRead] = field(default_factory=dict)

    def frame(self, table: HistoryTable) -> DataFrame:
        if table.name not in self.reads:
            self.reads[table.name] = self._read(table, self.wanted.since, self.wanted.period.until)
        return self.reads[table.name].frame

    def _read(self, table: HistoryTable, since: float, until: float) -> TableRead:
        jobs = None if self.wanted.jobs is None else jobs_like(self.wanted.jobs)
        selection = HistoryFilter(round(since * 1000), round(until * 1000), self.wanted.clusters, jobs)
        return read(self.spark, self.files, table, selection)

    def before(self, settings: ProfileSettings) -> DataFrame:
        """Return the samples that came before the period."""
        return self._read(SAMPLES, settings.begin, self.wanted.since).frame

    def damage(self) -> Iterator[str]:
        problems = [problem for found in self.reads.values() for problem in found.damaged]
        if problems:
            files = "1 file was" if len(problems) == 1 else f"{len(problems)} files were"
            more = "" if len(problems) <= _SHOWN_DAMAGED else f", and {len(problems) - _SHOWN_DAMAGED} more"
            told = "; ".join(problems[:_SHOWN_DAMAGED])
            yield f"{files} damaged and left out, so figures may be too low: {told}{more}"

    def nothing(self) -> str:
        """Say why there is nothing to report."""
        period, damage = self.wanted.period, "".join(f"; {text}" for text in self.damage())
        what = "no rows" if self.wanted.jobs is None else f"no rows of jobs like '{self.wanted.jobs}'"
        span = f"from {format_utc(self.wanted.since)} to {format_utc(period.until)}"
        return f"{self.files.root}: there are {what} {span}; history info shows what there is{damage}"


def _jobs(tables: _Tables, buckets: DataFrame, period: ReportPeriod) -> list[ReportMetrics]:
    """Return the figures of all jobs by key."""
    totals = _by_job(aggregate.job_totals(buckets.where(f.col("bucket") < period.count)))
    decisions = _by_job(aggregate.job_decisions(tables.frame(DECISIONS)))
    rescales = _by_job(aggregate.job_rescales(tables.frame(RESCALES)))
    # Of several policies in shadow mode the one that was it last.
    shadows = _by_job(aggregate.job_shadows(tables.frame(DECISIONS)).orderBy("last", "policy"))
    return [
        report_metrics(
            key,
            totals.get(key, {}),
            decisions.get(key, {}),
            rescales.get(key, {}),
            until=period.until,
            shadow=shadows.get(key),
        )
        for key in sorted({*totals, *rescales, *decisions})
    ]


def select_jobs_to_show(jobs: Sequence[ReportMetrics], most: int) -> Sequence[ReportMetrics]:
    """Return the jobs that get a section when there are too many: those that need a person, then the largest."""
    ranked = sorted(jobs, key=lambda job: (not job.concerns, -(job.slot_hours or 0.0), job.job_key))
    return sorted(ranked[:most], key=lambda job: job.job_key)


def _by_job(frame: DataFrame) -> dict[str, Row]:
    return {row["job_key"]: row for row in _rows(frame)}


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def _notes(jobs: Sequence[ReportMetrics], shown: Sequence[ReportMetrics]) -> Iterator[str]:
    for job in jobs:
        if job.is_too_short:
            yield f"{job.job_key}: only {job.passes} passes in the period, too few for charts"
    left_out = sum(not job.is_too_short for job in jobs) - len(shown)
    if left_out:
        yield (
            f"{left_out} more jobs are in the table without a section of their own: those that need a person and the "
            "largest ones are shown; --jobs and --sections choose others"
        )


def _sections(
    tables: _Tables, buckets: DataFrame, period: ReportPeriod, shown: Sequence[ReportMetrics]
) -> Iterator[JobSection]:
    keys = [job.job_key for job in shown]
    if not keys:
        return
    passes = _group_rows(_rows(buckets.where(f.col("job_key").isin(keys))), "job_key")
    vertices = _group_rows(_rows(aggregate.vertex_buckets(tables.frame(VERTICES), period, keys)), "job_key")
    rescales = _group_rows(_rows(aggregate.latest_rescales(tables.frame(RESCALES), keys)), "job_key")
    settings = tables.wanted.profiles
    missing = "left out, as asked for" if settings is None else NOTHING_BEFORE
    expected = {} if settings is None else _forecasts(tables.before(settings), settings, period, keys)
    for job in shown:
        series = {name: _values_by_bucket(passes.get(job.job_key, ()), period, name) for name in _SERIES}
        of_vertices = vertices.get(job.job_key, ())
        names = {row["vertex_id"]: row["name"] for row in of_vertices}
        newest_first = sorted(rescales.get(job.job_key, ()), key=lambda row: -row["at"])
        yield JobSection(
            figures=job,
            series=series,
            vertices=list(_widest(of_vertices, period, series["slots"])),
            rescales=[_rescale(row, names) for row in newest_first],
            forecast=_with_accuracy(expected.get(job.job_key, ReportForecast(problem=missing)), series["load"]),
        )


def _group_rows(rows: Sequence[Row], name: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[name] or "", []).append(row)
    return found


def _values_by_bucket(rows: Sequence[Row], period: ReportPeriod, name: str) -> list[float | None]:
    """Return the value in each bucket; None where there is no row."""
    values = {row["bucket"]: row[name] for row in rows}
    return [values.get(bucket) for bucket in range(period.count)]


def _widest(rows: Sequence[Row], period: ReportPeriod, slots: Series) -> Iterator[tuple[str, Series]]:
    """Yield the widest vertices of a job, by their greatest parallelism, which holds until the next pass."""
    by_vertex = _group_rows(rows, "vertex_id")
    widths = {key: max(row["parallelism"] for row in found) for key, found in by_vertex.items()}
    for key in sorted(by_vertex, key=lambda key: (-widths[key], key))[:_SHOWN_VERTICES]:
        held: list[float | None] = []
        for value, known in zip(_values_by_bucket(by_vertex[key], period, "parallelism"), slots, strict=True):
            held.append(held[-1] if held and value is None and known is not None else value)
        yield by_vertex[key][-1]["name"] or key or "?", held


def _rescale(row: Row, names: Mapping[str, str | None]) -> Row:
    before, target = (
        {entry["vertex_id"]: entry["parallelism"] for entry in row[side] or ()} for side in ("before", "target")
    )
    changes = [
        f"{names.get(vertex_id) or vertex_id} {before.get(vertex_id, '?')} → {wanted}"
        for vertex_id, wanted in target.items()
        if before.get(vertex_id) != wanted
    ]
    return {**row, "changes": changes, "is_bad": row["reverted"] or row["stage"] in aggregate.FAILED}


def _fleet(tables: _Tables, buckets: DataFrame, period: ReportPeriod) -> Mapping[str, Series]:
    sums = _rows(aggregate.fleet_buckets(buckets))
    rescales = _rows(aggregate.fleet_rescales(tables.frame(RESCALES), period))
    return {
        **{name: _values_by_bucket(sums, period, name) for name in ("slots", "load", "late")},
        "rescales": [count or 0 for count in _values_by_bucket(rescales, period, "rescales")],
    }


def _forecasts(
    samples: DataFrame, settings: ProfileSettings, period: ReportPeriod, job_keys: Collection[str]
) -> Mapping[str, ReportForecast]:
    """Make profiles of the samples that came before the period, and return what they expect of it, by job.

    Returns:
        The jobs that have any result. A job with a source without a profile has the problem of that.
    """
    of_jobs = samples.where(f.col("job_key").isin(sorted(job_keys)))
    if of_jobs.isEmpty():
        return {}  # starting Spark's workers takes longer than all the rest of a short history
    by_job: dict[str, list[ProfileResult]] = {}
    for result in results(profiles_of(of_jobs.withColumn("is_running", f.col("arrival_rate").isNotNull()), settings)):
        by_job.setdefault(result.job_key, []).append(result)
    return {job_key: _forecast(each, period) for job_key, each in by_job.items()}


def _forecast(sources: Sequence[ProfileResult], period: ReportPeriod) -> ReportForecast:
    profiles = [source.profile for source in sources if source.profile is not None]
    if len(profiles) < len(sources):
        problem = next(source.problem for source in sources if source.profile is None)
        return ReportForecast(problem=problem or "there is no profile")

    def expected(quantile: str, at: float) -> float | None:
        shares = [(profile, getattr(profile, quantile)[profile.slot(at)]) for profile in profiles]
        return None if None in [share for _, share in shares] else math.fsum(it.base(at) * part for it, part in shares)

    instants = [period.start_of(bucket) + period.width / 2 for bucket in range(period.count)]
    return ReportForecast([expected("q50", at) for at in instants], [expected("q90", at) for at in instants])


def _with_accuracy(forecast: ReportForecast, actual: Series) -> ReportForecast:
    """Return a forecast with how far it was from what arrived, over the buckets that know both."""
    both = [
        (rate, middle, upper)
        for rate, middle, upper in zip(actual, forecast.median, forecast.upper, strict=False)
        if rate is not None and middle is not None and upper is not None
    ]
    total = math.fsum(rate for rate, _, _ in both)
    if not total:
        return forecast
    wape = math.fsum(abs(rate - middle) for rate, middle, _ in both) / total
    return replace(forecast, wape=wape, exceeded=sum(rate > upper for rate, _, upper in both) / len(both))
