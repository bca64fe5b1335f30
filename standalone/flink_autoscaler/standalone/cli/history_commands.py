"""What the commands about the metric history do."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.option import nearest
from flink_autoscaler.pipeline.history.catalog import HistoryInfo, describe
from flink_autoscaler.pipeline.history.catalog import Progress as Tell
from flink_autoscaler.pipeline.history.compact import Maintained, Upkeep, maintain
from flink_autoscaler.pipeline.history.export import ExportSelection, Format, export
from flink_autoscaler.pipeline.history.files import HistoryError
from flink_autoscaler.pipeline.history.layout import Selection
from flink_autoscaler.pipeline.history.schema import TABLES, HistoryTable
from flink_autoscaler.standalone.cli import report_view
from flink_autoscaler.standalone.cli.output_files import whole_file
from flink_autoscaler.standalone.history.access import HistorySelection, opened_history, selection_of
from flink_autoscaler.standalone.settings.preparation import prepare
from flink_autoscaler.standalone.settings.schema.settings import Settings

STANDARD_OUTPUT: Final = "-"
_SHOWN_PROBLEMS: Final = 10
_LARGE_ROWS: Final = 400_000
"""Rows of a compacted file: a process that ends afterwards may take more memory than a daemon."""


@dataclass(frozen=True, slots=True)
class Export:
    """What is to be exported and where to, as text from the command line."""

    table: str
    output: str = STANDARD_OUTPUT
    form: str | None = None
    job: str | None = None
    replaces: bool = False


def show_info(file: Path | None, overrides: Sequence[str], asked: HistorySelection, *, as_json: bool) -> int:
    """Show what is in the history; return the exit code."""
    settings = prepare(file, overrides)
    selection = selection_of(asked)
    with opened_history(settings, asked) as storage, _progress("looking at files") as tell:
        found = describe(storage.files, selection, tell)
    if as_json:
        report_view.print_document(_document(found))
    else:
        _print_info(found)
    if found.is_empty:
        report_view.print_error(f"{found.root}: the history is empty{_in_selection(selection)}")
    _print_problems(found.damaged, "cannot be read")
    return 1 if found.is_empty or found.damaged else 0


def compact_history(
    file: Path | None, overrides: Sequence[str], asked: HistorySelection, *, retention: str | None, is_dry_run: bool
) -> int:
    """Compact the history and remove what is too old; return the exit code."""
    settings = prepare(file, overrides)
    upkeep = Upkeep(
        now_ms=round(time.time() * 1000),
        keep_seconds=_keep_seconds(settings, asked, retention),
        selection=selection_of(asked),
        is_dry_run=is_dry_run,
        large_rows=_LARGE_ROWS,
    )
    with opened_history(settings, asked) as storage, _progress("compacting folders") as tell:
        done = maintain(storage, upkeep, tell)
    _print_maintained(done, is_dry_run=is_dry_run)
    _print_problems(done.damaged, "cannot be read and stay as they are")
    return 1 if done.damaged else 0


def export_table(file: Path | None, overrides: Sequence[str], asked: HistorySelection, wanted: Export) -> int:
    """Copy a part of one table to a file; return the exit code.

    Raises:
        ConfigError: Something was asked wrongly, or the file cannot be written.
        HistoryError: Nothing was found, or the history cannot be read; there is no file then.
    """
    settings = prepare(file, overrides)
    table, form = _table(wanted.table), _format(wanted)
    rows = ExportSelection(table, selection_of(asked), wanted.job)
    with opened_history(settings, asked) as storage, _output(wanted) as stream, _progress("exporting files") as tell:
        done = export(storage, rows, stream, form, tell)
        _print_problems(done.damaged, "could not be read and are missing in the export")
        if done.rows == 0:
            raise HistoryError(f"no rows of {table.name} were found; history info shows what there is")
    where = "" if wanted.output == STANDARD_OUTPUT else f" to {wanted.output}"
    sys.stderr.write(f"{done.rows:,} rows of {done.files - len(done.damaged)} files{where}\n")
    return 1 if done.damaged else 0


def _keep_seconds(settings: Settings, asked: HistorySelection, retention: str | None) -> float | None:
    """Return how long days are kept; a history that is given by its path keeps all unless told otherwise."""
    if retention is None:
        return (settings.history.retention or None) if asked.path is None else None
    try:
        return syntax.parse_duration(retention).exact_seconds or None
    except ValueError as error:
        raise ConfigError(f"--retention '{retention}': expected a duration such as '30 d'") from error


def _table(name: str) -> HistoryTable:
    if name not in TABLES:
        raise ConfigError(f"there is no table '{name}'; known: {', '.join(TABLES)}{nearest(name, list(TABLES))}")
    return TABLES[name]


def _format(wanted: Export) -> Format:
    ending = Path(wanted.output).suffix.removeprefix(".").lower()
    name = wanted.form or {"jsonl": Format.JSON, "ndjson": Format.JSON}.get(ending, ending)
    if name in tuple(Format):
        return Format(name)
    if wanted.form is not None:
        raise ConfigError(f"--format '{wanted.form}': expected {', '.join(Format)}")
    return Format.CSV


@contextmanager
def _output(wanted: Export) -> Iterator[IO[bytes]]:
    """Open what an export goes to; a file appears when it is whole."""
    if wanted.output == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with whole_file(Path(wanted.output), replaces=wanted.replaces) as stream:
        yield stream


@contextmanager
def _progress(what: str) -> Iterator[Tell]:
    """Show a bar on standard error while something is done, where that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _print_info(found: HistoryInfo) -> None:
    table = report_view.table_of("TABLE", "ROWS", "FILES", "SIZE", "FIRST DAY", "LAST DAY", "CLUSTERS", "VERSIONS")
    for each in found.tables:
        days = [day.isoformat() if day else "-" for day in (each.first, each.last)]
        counts = f"{each.rows:,}", str(each.files), decimal(each.bytes)
        versions = ", ".join(map(str, each.versions)) or "-"
        report_view.add_row(table, each.name, *counts, *days, ", ".join(each.clusters) or "-", versions)
    sys.stdout.write(f"{found.root}\n")
    report_view.print_table(table)
    replaced = sum(each.replaced for each in found.tables)
    if replaced or found.staged:
        sys.stdout.write(
            f"being written or left behind: {found.staged + replaced} files; history compact removes them\n"
        )


def _document(found: HistoryInfo) -> dict[str, Any]:
    tables = [
        {
            **asdict(table),
            "first": table.first and table.first.isoformat(),
            "last": table.last and table.last.isoformat(),
        }
        for table in found.tables
    ]
    return {"path": found.root, "tables": tables, "staged": found.staged}


def _print_maintained(done: Maintained, *, is_dry_run: bool) -> None:
    would = "would be " if is_dry_run else ""
    lines = (
        f"{done.before} small files {would}replaced by {done.after}",
        f"{done.duplicates} rows {would}dropped that had been written twice",
        f"{done.expired} days of tables {would}removed",
        f"{done.leftovers} files of interrupted processes {would}removed",
    )
    # What nothing is said about is not known before it is done.
    shown = [line for line in lines if not (is_dry_run and "twice" in line)]
    sys.stdout.write("".join(f"{line}\n" for line in shown))


def _print_problems(problems: Sequence[str], what: str) -> None:
    if not problems:
        return
    report_view.print_error(f"{len(problems)} files {what}:")
    for problem in problems[:_SHOWN_PROBLEMS]:
        report_view.print_error(problem)
    if len(problems) > _SHOWN_PROBLEMS:
        report_view.print_error(f"and {len(problems) - _SHOWN_PROBLEMS} more")


def _in_selection(selection: Selection) -> str:
    return "" if selection == Selection() else " where it was looked at"
