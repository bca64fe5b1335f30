"""Output of commands: tables and JSON, errors, progress, and files; also where nobody reads, and until Ctrl-C."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import methodcaller
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.syntax import escape_json, escape_text
from flink_autoscaler.standalone.settings.secrets import mask_secrets

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from flink_autoscaler.pipeline.tables.store import Progress as Tell

_WIDTH_WITHOUT_TERMINAL: Final = 160
_WIDTH_OF_SECTIONS: Final = 80

Row = Sequence[str]
Rows = tuple[Row, Sequence[Row]]
"""What a table consists of: titles and rows."""


def table_of(titles: Row, rows: Iterable[Row]) -> Table:
    """Return a table of texts on one line each: what looks like markup, or moves the cursor, has a job's author."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(one_line(title), overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    return table


def one_line(text: str) -> str:
    """Return a foreign text as a line of its own, or a part of one."""
    return escape_text(" ".join(text.splitlines()))


def print_table(titles: Row, rows: Sequence[Row], *, if_empty: str | None = None) -> None:
    """Print a table to standard output, without control characters; lines are wide where no terminal limits them.

    Args:
        titles: Of the columns.
        rows: May be shorter than the titles.
        if_empty: Told on standard error instead of a table without rows.
    """
    if not rows and if_empty is not None:
        write_error(f"{if_empty}\n")
        return
    _console(_WIDTH_WITHOUT_TERMINAL).print(table_of(titles, rows))


def print_documents(
    name: str,
    documents: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    *,
    as_json: bool = False,
    if_empty: str | None = None,
) -> None:
    """Print documents, as JSON below a name or as a table.

    Args:
        name: Of the list in JSON.
        documents: What is printed.
        columns: Title to the field that the column shows, with a format behind a colon where there is one. What is not
            known, or empty, is a dash.
        as_json: Which of the two.
        if_empty: Told on standard error instead of a table without rows.
    """
    if as_json:
        print_document({name: documents})
        return
    fields = [each.partition(":") for each in columns.values()]
    rows = [tuple(_format_cell(document.get(field), form) for field, _, form in fields) for document in documents]
    print_table(tuple(columns), rows, if_empty=if_empty)


def _format_cell(value: Any, form: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | dict):
        value = ", ".join(map(str, value))
    return "-" if value is None or value == "" else format(value, form)


def table_text(titles: Row, rows: Sequence[Row]) -> str:
    """Return a table as wide lines."""
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=_WIDTH_WITHOUT_TERMINAL, force_terminal=False).print(table_of(titles, rows))
    return out.getvalue()


def print_sections(sections: Iterable[tuple[str, Sequence[str] | Rows]]) -> None:
    """Print parts with a title, of lines or of a table, which needs no title; one without lines is left out.

    Lines are only broken where a terminal limits them.
    """
    from rich.padding import Padding
    from rich.text import Text

    console = _console(_WIDTH_OF_SECTIONS)
    for title, content in sections:
        if isinstance(content, tuple):
            console.print()
            console.print(table_of(*content))
        elif content:
            console.print()
            console.print(Text(one_line(title), style="bold"))
            for line in content:
                text = Text(one_line(mask_secrets(line)))
                console.print(Padding(text, (0, 0, 0, 2)) if sys.stdout.isatty() else "  " + text.plain, soft_wrap=True)


def _console(width: int) -> Console:
    """Return what prints to standard output, so wide where no terminal limits it."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else width, highlight=False)


def print_document(document: object) -> None:
    """Print a document as JSON to standard output."""
    write_out(json_text(document, indent=2) + "\n")


def json_text(document: object, indent: int | None = None) -> str:
    """Return a document as JSON, instants by ISO 8601; programs read what is not printable from its escapes."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False, default=methodcaller("isoformat"))
    return escape_json(text)


def write_out(text: str) -> None:
    """Write a text for people to standard output, at once: the way of everything that is no table."""
    sys.stdout.write(escape_text(text))
    sys.stdout.flush()


def write_error(text: str) -> None:
    """Write a text for people to standard error."""
    sys.stderr.write(escape_text(text))
    sys.stderr.flush()


def print_error(text: str) -> None:
    """Print one line about something that went wrong to standard error."""
    write_error(f"error: {mask_secrets(text)}\n")


def truncate_lines(lines: Sequence[str], most: int, rest: str = "") -> list[str]:
    """Return the first of some lines, and one that counts the others."""
    return [*lines[:most], *([f"and {len(lines) - most} more{rest}"] if len(lines) > most else [])]


@contextmanager
def waiting_notice() -> Iterator[Callable[[float], None]]:
    """Give what tells on standard error, once, that metrics are waited for, and for how many seconds at most."""
    told = threading.Event()
    lock = threading.Lock()

    def tell(seconds: float) -> None:
        with lock:
            if not told.is_set():
                told.set()
                write_error(f"waiting for metrics, which Flink gathers when it is asked (up to {seconds:.0f} s)\n")

    yield tell


@contextmanager
def progress(what: str, *, is_timed: bool = False) -> Iterator[Tell]:
    """Show a bar on standard error while something is done, where that is a terminal.

    Args:
        what: Is done.
        is_timed: Whether the bar tells how long it has taken and will take.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    times = (TimeElapsedColumn(), TimeRemainingColumn()) if is_timed else ()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *times)
    shown = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with cleanup_on_interrupt(shown.stop), shown as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


@contextmanager
def binary_output() -> Iterator[IO[bytes]]:
    """Give standard output for data, which programs read as it is."""
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


@contextmanager
def atomic_write(target: Path, *, replaces: bool, option: str = "--output") -> Iterator[IO[bytes]]:
    """Give a stream to a file that appears when the block ends well, and not otherwise.

    Args:
        target: What the option named.
        replaces: Whether a file that is there is replaced.
        option: For messages.

    Raises:
        ConfigError: It exists already, or cannot be written; known before the block begins.
    """
    if target.exists() and not replaces:
        raise ConfigError(f"{option} {target}: exists already; --force replaces it")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with cleanup_on_interrupt(lambda: partial.unlink(missing_ok=True)):
            with partial.open("wb") as stream:
                yield stream
            partial.replace(target)
    except OSError as error:
        raise ConfigError(f"{option} {target}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


class ClosedOutput(io.TextIOBase):
    """Standard output that was closed: whoever writes to it is told so."""

    def write(self, text: str) -> int:
        """Fail, unless there is nothing to write."""
        if text:
            raise OSError("standard output is closed")
        return 0


def replace_closed_streams() -> None:
    """Fill the places of standard streams that are closed, so that no file or connection gets their numbers.

    What is logged to a closed standard error is lost, as whoever closed it wants. A daemon writes nothing else; other
    commands fail when they have something to say.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the life of the process


_CLEANUPS: Final[list[Callable[[], object]]] = []
"""What Ctrl-C does before it ends the process, the last first."""


@contextmanager
def cleanup_on_interrupt(undo: Callable[[], object]) -> Iterator[None]:
    """Have Ctrl-C do something before it ends the process at once; where it does something else by now, that stays."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, _exit_after_cleanup)
    _CLEANUPS.append(undo)
    try:
        yield
    finally:
        _CLEANUPS.remove(undo)


def _exit_after_cleanup(number: int, _: object) -> None:
    # Not by an exception: on its way out that would wait for threads whose requests nobody answers.
    for undo in reversed(_CLEANUPS):
        undo()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@contextmanager
def raise_on_interrupt() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt, so that one can go on; where it is ignored, it stays so."""
    before = signal.getsignal(signal.SIGINT)
    is_ours = threading.current_thread() is threading.main_thread() and before is not signal.SIG_IGN
    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)
