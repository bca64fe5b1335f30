"""The command ``report`` on the command line: options and help; ``fleet_report_commands`` does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flink_autoscaler.standalone.cli.options import ConfigOption, DebugOption, SetOption, call

_EXAMPLES = (
    "\b\nExamples:\n"
    "  flink-autoscaler report --since 7d --output report.html --config autoscaler.yaml\n"
    "  flink-autoscaler report --since 2026-01-01 --until 2026-02-01 --jobs 'main/orders*' --output january.html"
    " --path /data/history\n"
    "\nExit code: 0 when the page tells all, 1 when there is nothing to report, or the page is incomplete since files "
    "are damaged, clocks were wrong or no job has enough passes; 2 when a path or an option is wrong."
)


_OutputOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the page.", show_default=False)
]
_SinceOption = Annotated[
    str, typer.Option("--since", metavar="TIME", help="Begin of the period: an age such as 7d, or 2026-01-31.")
]
_UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="End of the period; without it: now.", show_default=False),
]
_PathOption = Annotated[
    str | None,
    typer.Option(
        "--path",
        metavar="PATH",
        help="Folder or URL of the history; unset takes the configured one.",
        show_default=False,
    ),
]
_ClustersOption = Annotated[
    list[str] | None,
    typer.Option("--cluster", metavar="NAME", help="Only this cluster; may be repeated.", show_default=False),
]
_JobsOption = Annotated[
    str | None,
    typer.Option("--jobs", metavar="PATTERN", help="Only jobs with this key; * and ? match.", show_default=False),
]
_SectionsOption = Annotated[
    int, typer.Option("--sections", metavar="N", min=0, max=500, help="Jobs that get charts of their own at most.")
]
_SloLagOption = Annotated[
    str | None,
    typer.Option(
        "--slo-lag",
        metavar="DURATION",
        help="Lag above which a job is too late; unset takes job.autoscaler.slo.lag.",
        show_default=False,
    ),
]
_ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace the file also if it is something else than a report.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(short_help="Write a page about the fleet and its jobs.", epilog=_EXAMPLES)(report)


def report(  # noqa: PLR0913, PLR0917 - one parameter per option
    output: _OutputOption,
    since: _SinceOption = "7d",
    until: _UntilOption = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    path: _PathOption = None,
    cluster: _ClustersOption = None,
    jobs: _JobsOption = None,
    sections: _SectionsOption = 50,
    slo_lag: _SloLagOption = None,
    forecast: Annotated[
        bool, typer.Option("--forecast/--no-forecast", help="Whether to compare what arrived with a forecast.")
    ] = True,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Heading of the page.")] = "Fleet report",
    force: _ForceOption = False,
    debug: DebugOption = False,
) -> None:
    """Write one page about the fleet and its jobs, from the metric history, that needs no other file and no network.

    Load against capacity, parallelism, lag, rescales with outages and reasons, forecast against actual, slot-hours
    used and saved, minutes too late, top talkers, and the jobs that need a person. Needs flink-autoscaler[report].
    """

    def run_command() -> int:
        from flink_autoscaler.standalone.cli import fleet_report_commands as commands  # noqa: PLC0415 - when it is needed

        asked = commands.ReportAsked(
            output=output,
            history=commands.HistorySelection(path, since, until, cluster),
            jobs=jobs,
            sections=sections,
            slo_lag=slo_lag,
            has_forecast=forecast,
            title=title,
            replaces=force,
        )
        return commands.write_report(config, settings or [], asked)

    call(run_command, is_debug=debug)
