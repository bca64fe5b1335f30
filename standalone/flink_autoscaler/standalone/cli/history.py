"""``history``: shows, compacts and exports the metric history."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.options.option import closest_key
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

if TYPE_CHECKING:
    from flink_autoscaler.pipeline.tables.export import Format
    from flink_autoscaler.pipeline.tables.schema import HistoryTable

app = cli.command_group(
    "flink-autoscaler history info --config autoscaler.yaml",
    text="Maintain the metric history.",
    short_help="Maintain the metric history: info, compact, export.",
)

_CODES: Final = "0 on success, 1 when there is no history or files are damaged, 2 for a wrong path."
_STANDARD_OUTPUT: Final = "-"
_MAX_PROBLEMS: Final = 10
_LARGE_ROWS: Final = 400_000
"""Rows of a compacted file: a process that ends afterwards may take more memory than a daemon."""


_COLUMNS: Final = {
    "TABLE": "name",
    "ROWS": "rows:,",
    "FILES": "files",
    "SIZE": "size",
    "FIRST DAY": "first",
    "LAST DAY": "last",
    "CLUSTERS": "clusters",
    "VERSIONS": "versions",
}


@cli.command(
    app,
    "flink-autoscaler history info --config autoscaler.yaml",
    "flink-autoscaler history info --path hdfs://nameservice1/flink/history --since '7 d' --json",
    codes=_CODES,
    short_help="Show the contents of the history.",
)
def info(
    settings_options: cli.SettingsOptions,
    asked: cli.HistoryOptions,
    as_json: cli.JsonOption = False,
) -> int:
    """Show tables, rows, days, clusters and damaged files of the history."""
    from rich.filesize import decimal

    from flink_autoscaler.pipeline.tables.files import STAGING
    from flink_autoscaler.pipeline.tables.store import HistoryFilter, describe
    from flink_autoscaler.standalone.cli.history_access import open_history, parse_selection

    prepared = settings_options.load_settings()
    selection = parse_selection(asked)
    with open_history(prepared, asked) as files, out.progress("looking at files") as tell:
        tables, staged = describe(files, selection, tell), len(files.list(STAGING))
    documents = list(map(asdict, tables))
    if as_json:
        out.print_document({"path": files.root, "tables": documents, "staged": staged})
    else:
        out.write_out(f"{files.root}\n")
        out.print_documents(
            "tables", [{**document, "size": decimal(document["bytes"])} for document in documents], _COLUMNS
        )
        if unused := staged + sum(each.replaced for each in tables):
            out.write_out(f"being written or left behind: {unused} files; history compact removes them\n")
    is_empty = not any(each.files for each in tables)
    if is_empty:
        where = "" if selection == HistoryFilter() else " where it was looked at"
        out.print_error(f"{files.root}: the history is empty{where}")
    damaged = [problem for each in tables for problem in each.damaged]
    _print_problems(damaged, "cannot be read")
    return 1 if is_empty or damaged else 0


@cli.command(
    app,
    "flink-autoscaler history compact --config autoscaler.yaml --dry-run",
    "flink-autoscaler history compact --path /var/lib/flink-autoscaler/history --retention '30 d'",
    codes=_CODES,
    short_help="Merge small files and remove old days.",
)
def compact(
    settings_options: cli.SettingsOptions,
    asked: cli.HistoryOptions,
    retention: Annotated[
        str | None,
        cli.value_option(
            "--retention",
            "DURATION",
            "Remove older days; 0: none; default: the configured one, or none with --path.",
        ),
    ] = None,
    dry_run: Annotated[bool, cli.flag_option("--dry-run", "Only show the result.")] = False,
) -> int:
    """Merge small files, remove old days and leftovers of interrupted processes.

    Keeps the current day (UTC) as it is. May run beside the daemon, and may be interrupted.
    """
    from flink_autoscaler.pipeline.tables.compact import MaintenanceTask, run_maintenance
    from flink_autoscaler.standalone.cli.history_access import open_history, parse_selection

    prepared = settings_options.load_settings()
    # A history that is given by its path keeps all unless told otherwise.
    kept = prepared.history.retention if asked.path is None else 0
    upkeep = MaintenanceTask(
        now_ms=round(time.time() * 1000),
        keep_seconds=(kept if retention is None else cli.read_seconds("--retention", retention, "30 d")) or None,
        selection=parse_selection(asked),
        is_dry_run=dry_run,
        large_rows=_LARGE_ROWS,
    )
    with open_history(prepared, asked) as files, out.progress("compacting folders") as tell:
        done = run_maintenance(files, upkeep, tell)
    would = "would be " if dry_run else ""
    out.write_out(f"{done.before} small files {would}replaced by {done.after}\n")
    # How many is not known before it is done.
    if not dry_run:
        out.write_out(f"{done.duplicates} rows dropped that had been written twice\n")
    out.write_out(f"{done.expired} days of tables {would}removed\n")
    out.write_out(f"{done.leftovers} files of interrupted processes {would}removed\n")
    _print_problems(done.damaged, "cannot be read and stay as they are")
    return 1 if done.damaged else 0


@cli.command(
    app,
    "flink-autoscaler history export samples --since '7 d' --output samples.parquet --config autoscaler.yaml",
    "flink-autoscaler history export rescales --job 'main/orders*' --format json --path /data/history",
    codes="0 when everything was exported, 1 when nothing was found or damaged files were left out.",
    short_help="Copy a part of the history to one file.",
    name="export",
)
def export_table(
    *,
    table: Annotated[
        str,
        cli.argument("TABLE", "samples, vertices, decisions or rescales."),
    ],
    output: Annotated[
        str, cli.value_option("--output -o", "FILE", "File to write; - is standard output.")
    ] = _STANDARD_OUTPUT,
    form: Annotated[
        str | None,
        cli.value_option(
            "--format",
            "NAME",
            "csv, json (an object per line) or parquet; default: by the file name, else csv.",
        ),
    ] = None,
    settings_options: cli.SettingsOptions,
    asked: cli.HistoryOptions,
    job: Annotated[
        str | None, cli.value_option("--job", "PATTERN", "Only jobs with this key or name; * and ? match.")
    ] = None,
    force: Annotated[bool, cli.flag_option("--force", "Replace the file if it exists.")] = False,
) -> int:
    """Copy rows of one table to a file, sorted by job within each day. Unknown values are empty, or null."""
    from flink_autoscaler.pipeline.tables.export import write_export as export_rows
    from flink_autoscaler.pipeline.tables.files import HistoryError
    from flink_autoscaler.standalone.cli.history_access import open_history, parse_selection

    prepared = settings_options.load_settings()
    wanted, to, damaged = _parse_table(table), _parse_format(form, output), list[str]()
    selection = parse_selection(asked, jobs=job)
    with (
        open_history(prepared, asked) as files,
        out.binary_output() if output == _STANDARD_OUTPUT else out.atomic_write(Path(output), replaces=force) as stream,
        out.progress("exporting files") as tell,
    ):
        rows = export_rows(files, wanted, selection, stream, to, damaged, tell)
        _print_problems(damaged, "could not be read and are missing in the export")
        if rows == 0:
            raise HistoryError(f"no rows of {table} were found; history info shows what there is")
    where = "" if output == _STANDARD_OUTPUT else f" to {output}"
    out.write_error(f"{rows:,} rows{where}\n")
    return 1 if damaged else 0


def _parse_table(name: str) -> HistoryTable:
    from flink_autoscaler.pipeline.tables.schema import TABLES

    if name not in TABLES:
        raise ConfigError(f"there is no table '{name}'; known: {', '.join(TABLES)}{closest_key(name, list(TABLES))}")
    return TABLES[name]


def _parse_format(asked: str | None, output: str) -> Format:
    from flink_autoscaler.pipeline.tables.export import Format

    ending = Path(output).suffix.removeprefix(".").lower()
    name = asked or {"jsonl": Format.JSON, "ndjson": Format.JSON}.get(ending, ending)
    if name in tuple(Format):
        return Format(name)
    if asked is not None:
        raise ConfigError(f"--format '{asked}': expected {', '.join(Format)}")
    return Format.CSV


def _print_problems(problems: Sequence[str], what: str) -> None:
    if problems:
        out.print_error(f"{len(problems)} files {what}:")
    for line in out.truncate_lines(problems, _MAX_PROBLEMS):
        out.print_error(line)
