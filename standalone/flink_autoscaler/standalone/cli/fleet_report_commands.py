"""What the command ``report`` does."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.forecast import ForecastOptions
from flink_autoscaler.core.options.safety import SafetyOptions
from flink_autoscaler.pipeline.history.catalog import find_all
from flink_autoscaler.pipeline.history.files import HistoryError, LocalFiles, is_local
from flink_autoscaler.pipeline.history.layout import Selection
from flink_autoscaler.pipeline.history.storage import spark_storage
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.reports import require_libraries
from flink_autoscaler.pipeline.reports.build import ReportRequest, build_report
from flink_autoscaler.pipeline.reports.report import Report
from flink_autoscaler.standalone.cli import report_view
from flink_autoscaler.standalone.cli.output_files import whole_file
from flink_autoscaler.standalone.history.access import (
    HistorySelection,
    missing_is_told,
    path_of,
    selection_of,
    spark_session,
)
from flink_autoscaler.standalone.settings.preparation import prepare
from flink_autoscaler.standalone.settings.schema.settings import Settings

__all__ = ["HistorySelection", "ReportAsked", "write_report"]

_LEAST_MEMORY: Final = 1 << 30
_CONF: Final = {"spark.sql.adaptive.enabled": "true", "spark.sql.shuffle.partitions": "16"}
_HEAD: Final = 4096
_SHOWN_NOTES: Final = 5


@dataclass(frozen=True, slots=True)
class ReportAsked:
    """What is to be reported and where to, as text from the command line.

    Attributes:
        history: Which part of which one; without an end it is the present.
        jobs: Pattern for keys of jobs; None takes all.
        sections: Jobs with charts of their own at most.
        slo_lag: Duration; None takes what is configured for all jobs.
        replaces: Whether any file may be replaced, not reports alone.
    """

    output: Path
    history: HistorySelection
    jobs: str | None = None
    sections: int = 50
    slo_lag: str | None = None
    has_forecast: bool = True
    title: str = "Fleet report"
    replaces: bool = False


def write_report(file: Path | None, overrides: Sequence[str], asked: ReportAsked) -> int:
    """Write the page; return the exit code.

    Raises:
        ConfigError: Something was asked wrongly, libraries are missing, or the file cannot be written.
        HistoryError: There is nothing to report, or the history cannot be read; there is no file then.
        SparkLostError: Spark did not start, or failed.
    """
    settings = prepare(file, overrides)
    require_libraries()
    from flink_autoscaler.pipeline.reports.fleet import fleet_page  # noqa: PLC0415 - its libraries are an extra

    with whole_file(asked.output, replaces=_may_replace(asked)) as stream:
        report = _built(settings, asked)
        stream.write(fleet_page(report).encode())
    return _told(asked.output, report)


def _may_replace(asked: ReportAsked) -> bool:
    """Tell whether the file may be replaced: yesterday's report may, anything else only when that was asked for."""
    if asked.output.is_dir():
        raise ConfigError(f"--output {asked.output}: is a folder; give the name of a file")
    return asked.replaces or _is_report(asked.output)


def _is_report(output: Path) -> bool:
    from flink_autoscaler.pipeline.reports.fleet import GENERATOR  # noqa: PLC0415 - its libraries are an extra

    try:
        with output.open("rb") as stream:
            return f'content="{GENERATOR}"'.encode() in stream.read(_HEAD)
    except OSError:
        return False


def _built(settings: Settings, asked: ReportAsked) -> Report:
    wanted, path = _wanted(settings, asked), path_of(settings, asked.history)
    with missing_is_told(settings, asked.history):
        if is_local(path):
            _require_rows(LocalFiles(path), selection_of(asked.history, wanted.now))
        with spark_session(settings, least_memory=_LEAST_MEMORY, conf=_CONF) as spark:
            return build_report(spark, spark_storage(path, spark), wanted)


def _require_rows(files: LocalFiles, selection: Selection) -> None:
    """Find out before Spark is started that there is nothing.

    Raises:
        MissingHistoryError: There is no such folder.
        HistoryError: It has no files about the period.
    """
    if not any(find_all(files, selection).values()):
        raise HistoryError(f"{files.root}: there are no rows in the period; history info shows what there is")


def _wanted(settings: Settings, asked: ReportAsked) -> ReportRequest:
    now = time.time()
    selection = selection_of(asked.history, now)
    since = now if selection.since_ms is None else selection.since_ms / 1000
    if since >= now:
        raise ConfigError(f"--since '{asked.history.since}' is not in the past")
    return ReportRequest(
        since=since,
        until=None if selection.until_ms is None else selection.until_ms / 1000,
        now=now,
        clusters=selection.clusters,
        jobs=asked.jobs,
        sections=asked.sections,
        slo_lag=_slo_lag(settings, asked.slo_lag),
        profiles=ProfileSettings.of(ForecastOptions(settings.job_defaults), since) if asked.has_forecast else None,
        title=asked.title,
    )


def _slo_lag(settings: Settings, text: str | None) -> float:
    if text is None:
        return SafetyOptions(settings.job_defaults).slo_lag.exact_seconds
    try:
        return syntax.parse_duration(text).exact_seconds
    except ValueError as error:
        raise ConfigError(f"--slo-lag '{text}': expected a duration such as '60 s'") from error


def _told(output: Path, report: Report) -> int:
    """Say what was written and what is missing; return the exit code."""
    for text in report.problems:
        report_view.print_error(text)
    for text in report.notes[:_SHOWN_NOTES]:
        sys.stderr.write(f"note: {text}\n")
    if len(report.notes) > _SHOWN_NOTES:
        sys.stderr.write(f"note: and {len(report.notes) - _SHOWN_NOTES} more, in the page\n")
    concerned = sum(bool(job.concerns) for job in report.jobs)
    size = output.stat().st_size / 1e6
    sys.stdout.write(f"{output}: {len(report.jobs)} jobs, {concerned} need a person, {size:.1f} MB\n")
    return 1 if report.problems else 0
