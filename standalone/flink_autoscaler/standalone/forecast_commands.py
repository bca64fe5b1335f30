"""The commands about load profiles on the command line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flink_autoscaler.standalone.cli_options import (
    EXIT_CONFIG,
    EXIT_FAILED,
    ConfigOption,
    DebugOption,
    JsonOption,
    SetOption,
    call,
)

if TYPE_CHECKING:
    from flink_autoscaler.core.forecast.store import ForecastStore, ProfileResult
    from flink_autoscaler.standalone.settings import Settings

Document = dict[str, Any]

LEAST_MEMORY: Final = 1 << 30
"""Heap for weeks of samples, bytes; what the settings say counts where it is more."""

forecast = typer.Typer(
    help="Make load profiles, which forecasts rest on.",
    short_help="Make load profiles: build.",
    invoke_without_command=True,
    epilog="\b\nExamples:\n  flink-autoscaler forecast build --config autoscaler.yaml --history /var/lib/history",
    rich_markup_mode=None,
)


@forecast.callback()
def _options(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(EXIT_CONFIG)


@forecast.command(
    short_help="Make the profiles of all sources.",
    epilog="\b\nExamples:\n"
    "  flink-autoscaler forecast build --config autoscaler.yaml --history /var/lib/history\n"
    "  flink-autoscaler forecast build --history samples.parquet --asof 2026-01-31T00:00 --dry-run --json\n"
    "\nExit code: 0 when there is a result for every source, 1 when the history has none.",
)
def build(
    history: Annotated[
        Path, typer.Option("--history", metavar="PATH", help="Parquet file or folder with what arrived at the sources.")
    ],
    config: ConfigOption = None,
    settings: SetOption = None,
    asof: Annotated[
        str | None,
        typer.Option(
            "--asof",
            metavar="TIME",
            help="Use the history up to then: '1 d', or 2026-01-31T12:00; without it: all.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the results, without a database.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Make the load profiles of all sources from the history, and put them into the database.

    Meant for every night: a profile that is older than two days is not used. Sources with too little history have a
    result that says so.
    """
    asked = Asked(history, asof, is_dry_run=dry_run, as_json=as_json)
    call(lambda: build_forecasts(config, settings or [], asked), is_debug=debug)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be built.

    Attributes:
        history: File or folder.
        asof: End of the history as text; None takes the present.
        is_dry_run: Whether nothing is stored.
        as_json: Whether the results are shown as JSON.
    """

    history: Path
    asof: str | None = None
    is_dry_run: bool = False
    as_json: bool = False


def build_forecasts(file: Path | None, overrides: Sequence[str], asked: Asked) -> int:
    """Make the profiles, store and show them; return the exit code.

    Raises:
        AutoscalerError: The settings, the history, Spark or the database cannot be used.
    """
    # What the command needs is imported when it runs, so that --help does not wait for Spark and the database.
    from flink_autoscaler.standalone import report_view  # noqa: PLC0415
    from flink_autoscaler.standalone.preparation import prepare  # noqa: PLC0415

    settings = prepare(file, overrides)
    shown: list[Document] = []
    if asked.is_dry_run:
        shown.extend(map(_document, _results(settings, asked)))
    else:
        with _store(settings) as store:
            store.save(_noted(_results(settings, asked), shown))
    shown.sort(key=lambda document: (document["job_key"], document["source_id"]))
    if asked.as_json:
        report_view.print_document({"forecasts": shown})
    else:
        _print_table(shown)
    return 0 if shown else EXIT_FAILED


@contextmanager
def _store(settings: Settings) -> Iterator[ForecastStore]:
    """Give the store in the database of the settings, which has to be there before anything is computed."""
    from flink_autoscaler.standalone.databases import open_database  # noqa: PLC0415
    from flink_autoscaler.stores.sql.forecasts import SqlForecastStore  # noqa: PLC0415
    from flink_autoscaler.stores.sql.schema import require_current  # noqa: PLC0415

    with closing(open_database(settings)) as database:
        require_current(database, upgrades_at_start=settings.standalone.jdbc_upgrade_at_start)
        yield SqlForecastStore(database)


def _results(settings: Settings, asked: Asked) -> Iterator[ProfileResult]:
    from flink_autoscaler.core.forecast.forecast_options import ForecastOptions  # noqa: PLC0415
    from flink_autoscaler.pipeline.profiles import ProfileSettings  # noqa: PLC0415
    from flink_autoscaler.pipeline.profiles.run import build_profiles, parquet_files  # noqa: PLC0415
    from flink_autoscaler.pipeline.session import SparkSettings  # noqa: PLC0415
    from flink_autoscaler.standalone.explain_commands import read_instant  # noqa: PLC0415

    now = time.time()
    asof = now if asked.asof is None else read_instant(asked.asof, now) / 1000
    engine = settings.engine
    spark = SparkSettings(
        master=engine.spark_master,
        driver_memory=f"{max(engine.driver_memory, LEAST_MEMORY) >> 20}m",
        conf=engine.spark_config,
    )
    wanted = ProfileSettings.of(ForecastOptions(settings.job_defaults), asof)
    return build_profiles(spark, parquet_files(asked.history), wanted)


def _noted(results: Iterable[ProfileResult], shown: list[Document]) -> Iterator[ProfileResult]:
    """Hand on the results, and keep what is shown of them."""
    for result in results:
        shown.append(_document(result))
        yield result


def _document(result: ProfileResult) -> Document:
    names = ("weeks", "level", "growth", "missing", "wape", "exceed", "timezone")
    return {
        "job_key": result.job_key,
        "source_id": result.source_id,
        "asof": datetime.fromtimestamp(result.asof, UTC).isoformat(),
        **{name: None if result.profile is None else getattr(result.profile, name) for name in names},
        "problem": result.problem,
    }


def _print_table(documents: Sequence[Document]) -> None:
    from flink_autoscaler.standalone import report_view  # noqa: PLC0415

    table = report_view.table_of("JOB", "SOURCE", "WEEKS", "LEVEL", "GROWTH", "ERROR", "EXCEEDED", "PROBLEM")
    for document in documents:
        formats = {"weeks": "d", "level": ".6g", "growth": ".3f", "wape": ".1%", "exceed": ".1%"}
        figures = ("-" if document[name] is None else format(document[name], form) for name, form in formats.items())
        report_view.add_row(table, document["job_key"], document["source_id"], *figures, document["problem"] or "-")
    report_view.print_table(table)
    made = sum(document["problem"] is None for document in documents)
    sys.stdout.write(f"{made} profiles made, {len(documents) - made} sources without one\n")
