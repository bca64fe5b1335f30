"""``forecast``: makes load profiles, which forecasts rest on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

if TYPE_CHECKING:
    from flink_autoscaler.core.model.load_profile import ProfileResult
    from flink_autoscaler.core.ports.forecast_store import ForecastStore
    from flink_autoscaler.standalone.settings.schema.settings import Settings

app = cli.command_group(
    "flink-autoscaler forecast build --config autoscaler.yaml",
    text="Build load profiles, the base of forecasts.",
    short_help="Build load profiles: build.",
)

Document = dict[str, Any]

_COLUMNS: Final = {
    "JOB": "job_key",
    "SOURCE": "source_id",
    "WEEKS": "weeks:d",
    "LEVEL": "level:.6g",
    "GROWTH": "growth:.3f",
    "ERROR": "wape:.1%",
    "EXCEEDED": "exceed:.1%",
    "PROBLEM": "problem",
}


@cli.command(
    app,
    "flink-autoscaler forecast build --config autoscaler.yaml",
    "flink-autoscaler forecast build --history samples.parquet --asof 2026-01-31T00:00 --dry-run --json",
    codes="0 when there is a result for every source, 1 when there is none, 2 for a wrong path or option.",
    short_help="Build the load profiles of all sources.",
)
def build(
    given: cli.GivenSettings,
    history: Annotated[
        str | None,
        cli.valued(
            "--history",
            "PATH",
            "Folder or URL of a metric history, or Parquet files; default: the configured one.",
        ),
    ] = None,
    asof: Annotated[
        str | None,
        cli.valued("--asof", "TIME", "End of the history: '1 d', or 2026-01-31T12:00.  [default: all]"),
    ] = None,
    dry_run: Annotated[bool, cli.switch("--dry-run", "Only show the result, without a database.")] = False,
    as_json: cli.JsonOption = False,
) -> int:
    """Build the load profiles of all sources from the metric history, and store them in the database.

    The daemon does this by autoscaler.forecast.build-schedule. Profiles expire after two days. Sources with too little
    history are reported, and damaged files are skipped with a warning.
    """
    prepared = given.prepare_stored()
    return show_profiles(prepared, profile_job(prepared, history, asof), is_dry_run=dry_run, as_json=as_json)


def profile_job(settings: Settings, history: str | None, asof: str | None) -> Callable[..., Iterator[ProfileResult]]:
    """Return what makes the profiles once it is called; it may be given who opens the Spark session.

    Args:
        settings: With the configured history.
        history: Folder or URL of a metric history, or Parquet files; None takes the configured history.
        asof: End of the history as text; None takes the present.

    Raises:
        ConfigError: It is not clear which history, or until when.
    """
    from flink_autoscaler.standalone.history.profiles import profile_build

    path = history or settings.history.path
    if path is None:
        raise ConfigError("which history? Give --history, or set autoscaler.history.path")
    now = time.time()
    end = now if asof is None else cli.read_instant(asof, now, "--asof") / 1000
    return profile_build(settings, path, end)


def show_profiles(
    settings: Settings, make: Callable[[], Iterator[ProfileResult]], *, is_dry_run: bool, as_json: bool
) -> int:
    """Make profiles, store them unless it is a dry run, and show them; return the exit code.

    Raises:
        AutoscalerError: The history, Spark or the database cannot be used.
    """
    shown: list[Document] = []
    if is_dry_run:
        shown.extend(map(_document, make()))
    else:
        with _store(settings) as store:
            store.save(_noted(make(), shown))
    shown.sort(key=lambda document: (document["job_key"], document["source_id"]))
    out.show("forecasts", shown, _COLUMNS, as_json=as_json)
    if not as_json:
        made = sum(each["problem"] is None for each in shown)
        out.write_out(f"{made} profiles made, {len(shown) - made} sources without one\n")
    if not shown:
        out.print_error("there are no samples in that time; history info shows what there is")
    return 0 if shown else cli.EXIT_FAILED


@contextmanager
def _store(settings: Settings) -> Iterator[ForecastStore]:
    """Give the store in the database of the settings, which has to be there before anything is computed."""
    from flink_autoscaler.standalone.ha.databases import open_database
    from flink_autoscaler.stores.sql.forecasts import SqlForecastStore
    from flink_autoscaler.stores.sql.schema import require_current

    with closing(open_database(settings)) as database:
        require_current(database, upgrades_at_start=settings.standalone.jdbc_upgrade_at_start)
        yield SqlForecastStore(database)


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
