"""``report``: a page about the fleet and its jobs."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

if TYPE_CHECKING:
    from flink_autoscaler.pipeline.reports.build import ReportRequest
    from flink_autoscaler.pipeline.reports.report import Report
    from flink_autoscaler.standalone.settings.schema.settings import Settings

app = typer.Typer()

_CONF: Final = {"spark.sql.adaptive.enabled": "true", "spark.sql.shuffle.partitions": "16"}
_SMALL_CONF: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""Of a short history: interpreting plans of a few rows takes a third of the time of compiling them."""
_HEAD: Final = 4096
_MAX_NOTES: Final = 5


@cli.command(
    app,
    "flink-autoscaler report --since 7d --output report.html --config autoscaler.yaml",
    "flink-autoscaler report --since 2026-01-01 --until 2026-02-01 --jobs 'main/orders*' --output january.html"
    " --path /data/history",
    codes="0 when the page is complete, 1 when there is nothing to report, files are damaged, clocks were wrong or no "
    "job has enough passes, 2 for a wrong path or option.",
    short_help="Write a report about the fleet and its jobs.",
)
def report(
    *,
    output: Annotated[Path, cli.value_option("--output -o", "FILE", "File to write.")],
    since: Annotated[str, cli.value_option("--since", "TIME", "Begin: an age such as 7d, or 2026-01-31.")] = "7d",
    until: Annotated[str | None, cli.value_option("--until", "TIME", "End.  [default: now]")] = None,
    settings_options: cli.SettingsOptions,
    path: cli.HistoryPathOption = None,
    cluster: cli.ClustersOption = None,
    jobs: Annotated[
        str | None, cli.value_option("--jobs", "PATTERN", "Only jobs with this key or name; * and ? match.")
    ] = None,
    sections: Annotated[
        int, cli.value_option("--sections", "N", "Maximum number of jobs with charts.", min=0, max=500)
    ] = 50,
    slo_lag: Annotated[
        str | None,
        cli.value_option("--slo-lag", "DURATION", "Lag above which a job is late; default: job.autoscaler.slo.lag."),
    ] = None,
    forecast: Annotated[bool, cli.flag_option("--forecast/--no-forecast", "Compare arrivals with a forecast.")] = True,
    title: Annotated[str, cli.value_option("--title", "TEXT", "Heading.")] = "Fleet report",
    force: Annotated[bool, cli.flag_option("--force", "Replace the file even if it is no report.")] = False,
) -> int:
    """Write a self-contained HTML page about the fleet and its jobs, from the metric history.

    Load against capacity, parallelism, lag, rescales with downtime and reasons, forecast against actual, slot-hours
    used and saved, late minutes, top talkers, and jobs that need attention. Needs flink-autoscaler[spark].
    """
    prepared, history = settings_options.load_settings(), cli.HistoryOptions(path, since, until, cluster)
    shown: dict[str, Any] = {"jobs": jobs, "sections": sections, "title": title}
    request = _report_request(prepared, history, slo_lag, has_forecast=forecast, **shown)
    # After what takes Spark: where neither is installed, the extra is named that has all that a report needs.
    from flink_autoscaler.pipeline.reports.pages import fleet_page

    with out.atomic_write(output, replaces=_may_replace(output, is_forced=force)) as stream:
        built = _build_report(prepared, history, request)
        stream.write(fleet_page(built).encode())
    return _print_summary(output, built)


def _may_replace(output: Path, *, is_forced: bool) -> bool:
    """Tell whether the file may be replaced: yesterday's report may, anything else only when that was asked for."""
    if output.is_dir():
        raise ConfigError(f"--output {output}: is a folder; give the name of a file")
    return is_forced or _is_report(output)


def _is_report(output: Path) -> bool:
    from flink_autoscaler.pipeline.reports.pages import GENERATOR

    try:
        with output.open("rb") as stream:
            return f'content="{GENERATOR}"'.encode() in stream.read(_HEAD)
    except OSError:
        return False


def _report_request(
    settings: Settings, history: cli.HistoryOptions, slo_lag: str | None, *, has_forecast: bool, **shown: Any
) -> ReportRequest:
    from flink_autoscaler.core.options.forecast import ForecastOptions
    from flink_autoscaler.core.options.safety import SafetyOptions
    from flink_autoscaler.pipeline.profiles import ProfileSettings
    from flink_autoscaler.pipeline.reports.build import ReportRequest
    from flink_autoscaler.standalone.cli.history_access import parse_selection

    now = time.time()
    selection = parse_selection(history, now)
    since = now if selection.since_ms is None else selection.since_ms / 1000
    if since >= now:
        raise ConfigError(f"--since '{history.since}' is not in the past")
    configured = SafetyOptions(settings.job_defaults).slo_lag.exact_seconds
    return ReportRequest(
        since=since,
        until=None if selection.until_ms is None else selection.until_ms / 1000,
        now=now,
        clusters=selection.clusters,
        slo_lag=configured if slo_lag is None else cli.read_seconds("--slo-lag", slo_lag, "60 s"),
        profiles=ProfileSettings.of(ForecastOptions(settings.job_defaults), since) if has_forecast else None,
        **shown,
    )


def _build_report(settings: Settings, history: cli.HistoryOptions, request: ReportRequest) -> Report:
    from flink_autoscaler.pipeline.reports.build import build_report
    from flink_autoscaler.pipeline.tables.files import HistoryError, LocalFiles, files_at, is_local
    from flink_autoscaler.pipeline.tables.store import list_all_folders
    from flink_autoscaler.standalone.cli import history_access as access
    from flink_autoscaler.standalone.settings.spark import BATCH_MEMORY

    path, conf = access.history_path(settings, history), _CONF
    with access.explain_missing_folder(settings, history):
        if is_local(path):
            # Before Spark is started: whether there is anything, and whether it is little, with that for forecasts.
            files, selection = LocalFiles(path), access.parse_selection(history, request.now)
            if not any(list_all_folders(files, selection).values()):
                raise HistoryError(f"{files.root}: there are no rows in the period; history info shows what there is")
            if request.profiles is not None:
                selection = replace(selection, since_ms=round(request.profiles.begin * 1000))
            if access.is_small(folder for folders in list_all_folders(files, selection).values() for folder in folders):
                conf = _SMALL_CONF
        with access.spark_session(settings, min_memory=BATCH_MEMORY, conf=conf) as spark:
            return build_report(spark, files_at(path, spark), request)


def _print_summary(output: Path, written: Report) -> int:
    """Say what was written and what is missing; return the exit code."""
    for text in written.problems:
        out.print_error(text)
    for text in out.truncate_lines(written.notes, _MAX_NOTES, ", in the page"):
        out.write_error(f"note: {text}\n")
    concerned = sum(bool(job.concerns) for job in written.jobs)
    size = output.stat().st_size / 1e6
    jobs = f"{len(written.jobs)} job{'' if len(written.jobs) == 1 else 's'}"
    out.write_out(f"{output}: {jobs}, {concerned} {'needs' if concerned == 1 else 'need'} a person, {size:.1f} MB\n")
    return 1 if written.problems else 0
