"""What the commands about load profiles do."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.policy_values import ProfileResult
from flink_autoscaler.core.options.forecast import ForecastOptions
from flink_autoscaler.core.ports.forecast_store import ForecastStore
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.run import Opener, build_profiles
from flink_autoscaler.pipeline.profiles.samples import samples_at
from flink_autoscaler.pipeline.spark.session import SparkSettings, open_session
from flink_autoscaler.standalone.cli import report_view
from flink_autoscaler.standalone.cli.explain_commands import read_instant
from flink_autoscaler.standalone.cli.options import EXIT_FAILED
from flink_autoscaler.standalone.ha.databases import open_database
from flink_autoscaler.standalone.settings.preparation import prepare
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.stores.sql.forecasts import SqlForecastStore
from flink_autoscaler.stores.sql.schema import require_current

Document = dict[str, Any]

LEAST_MEMORY: Final = 1 << 30
"""Heap for weeks of samples, bytes; what the settings say counts where it is more."""


@dataclass(frozen=True, slots=True)
class BuildArguments:
    """What is to be built.

    Attributes:
        history: Folder or URL of a metric history, or Parquet files; None takes the configured history.
        asof: End of the history as text; None takes the present.
        is_dry_run: Whether nothing is stored.
        as_json: Whether the results are shown as JSON.
    """

    history: str | None = None
    asof: str | None = None
    is_dry_run: bool = False
    as_json: bool = False


def build_forecasts(
    file: Path | None, overrides: Sequence[str], asked: BuildArguments, opener: Opener = open_session
) -> int:
    """Make the profiles, store and show them; return the exit code.

    Args:
        file: Configuration.
        overrides: Texts ``key=value``.
        asked: What is to be built.
        opener: Who opens the Spark session.

    Raises:
        AutoscalerError: The settings, the history, Spark or the database cannot be used.
    """
    settings = prepare(file, overrides)
    shown: list[Document] = []
    if asked.is_dry_run:
        shown.extend(map(_document, _results(settings, asked, opener)))
    else:
        with _store(settings) as store:
            store.save(_noted(_results(settings, asked, opener), shown))
    shown.sort(key=lambda document: (document["job_key"], document["source_id"]))
    if asked.as_json:
        report_view.print_document({"forecasts": shown})
    else:
        _print_table(shown)
    if not shown:
        report_view.print_error("there are no samples in that time; history info shows what there is")
    return 0 if shown else EXIT_FAILED


@contextmanager
def _store(settings: Settings) -> Iterator[ForecastStore]:
    """Give the store in the database of the settings, which has to be there before anything is computed."""
    with closing(open_database(settings)) as database:
        require_current(database, upgrades_at_start=settings.standalone.jdbc_upgrade_at_start)
        yield SqlForecastStore(database)


def _results(settings: Settings, asked: BuildArguments, opener: Opener) -> Iterator[ProfileResult]:
    path = asked.history or settings.history.path
    if path is None:
        raise ConfigError("which history? Give --history, or set autoscaler.history.path")
    engine = settings.engine
    spark = SparkSettings(
        master=engine.spark_master,
        driver_memory=f"{max(engine.driver_memory, LEAST_MEMORY) >> 20}m",
        python_files=engine.python_files,
        conf=engine.spark_config,
    )
    wanted = ProfileSettings.of(ForecastOptions(settings.job_defaults), _asof(asked.asof, time.time()))
    return build_profiles(spark, samples_at(path, wanted), wanted, opener)


def _asof(text: str | None, now: float) -> float:
    try:
        return now if text is None else read_instant(text, now) / 1000
    except ConfigError as error:
        raise ConfigError(str(error).replace("--at", "--asof", 1)) from error


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
    table = report_view.table_of("JOB", "SOURCE", "WEEKS", "LEVEL", "GROWTH", "ERROR", "EXCEEDED", "PROBLEM")
    for document in documents:
        formats = {"weeks": "d", "level": ".6g", "growth": ".3f", "wape": ".1%", "exceed": ".1%"}
        figures = ("-" if document[name] is None else format(document[name], form) for name, form in formats.items())
        report_view.add_row(table, document["job_key"], document["source_id"], *figures, document["problem"] or "-")
    report_view.print_table(table)
    made = sum(document["problem"] is None for document in documents)
    sys.stdout.write(f"{made} profiles made, {len(documents) - made} sources without one\n")
