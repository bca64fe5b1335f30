"""What ``explain`` and ``replay`` do with recorded passes."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.options.option import nearest
from flink_autoscaler.standalone.cli import report_view
from flink_autoscaler.standalone.cli.explain_view import explanation_document, moment, print_explanation
from flink_autoscaler.standalone.records.codec import PassRecord, decode, read_export, to_document
from flink_autoscaler.standalone.records.explain import explain
from flink_autoscaler.standalone.records.replay import differences, replayed
from flink_autoscaler.standalone.settings.preparation import prepare

if TYPE_CHECKING:
    from flink_autoscaler.core.cycle.recording import RecordStore
    from flink_autoscaler.standalone.settings.schema.settings import Settings

_AGO: Final = re.compile(r"(\d+\s*[a-zA-Zµ]+)\s*(ago)?", re.ASCII)
_SHOWN_JOBS: Final = 20

HOW_TO_RECORD: Final = (
    "passes are only recorded where there is a database: set autoscaler.standalone.state-store.type: JDBC and "
    "autoscaler.standalone.jdbc.url, for a single host jdbc:sqlite:/var/lib/flink-autoscaler/autoscaler.db, and "
    "restart the daemon; until then, flink-autoscaler once --json shows a pass as it is made"
)


@dataclass(frozen=True, slots=True)
class PassArguments:
    """Which pass was asked for, as text.

    Attributes:
        job: Key of the job, or its name where only one job has it.
        at: Instant or age of the pass; None takes the newest record.
        cluster: Only jobs of this cluster.
    """

    job: str
    at: str | None = None
    cluster: str | None = None


def explain_job(
    file: Path | None,
    overrides: Sequence[str],
    asked: PassArguments,
    *,
    vertex: str | None = None,
    as_json: bool = False,
    export: Path | None = None,
) -> int:
    """Show why a job was or was not changed; return the exit code."""
    record, newest = _found(file, overrides, asked)
    if export is not None:
        _export(record, export)
        return 0
    explained = explain(record, newest)
    known = [each.name for each in explained.vertices]
    if vertex is not None and vertex not in (*known, *(each.vertex_id for each in explained.vertices)):
        raise ConfigError(f"--vertex '{vertex}': the job has {', '.join(known) or 'no vertices then'}")
    if as_json:
        report_view.print_document(explanation_document(explained))
    else:
        print_explanation(explained, vertex)
    return 0


def replay_job(file: Path | None, overrides: Sequence[str], asked: PassArguments) -> int:
    """Do a recorded pass again and compare; return the exit code."""
    return _replay(_found(file, overrides, asked)[0])


def replay_file(path: Path) -> int:
    """Do an exported pass again and compare; return the exit code.

    Raises:
        ConfigError: The file cannot be read.
        StoreError: It is no record.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"--record {path}: {error.strerror}") from error
    return _replay(read_export(data))


def read_instant(text: str, now: float) -> int:
    """Return the epoch milliseconds that ``10m ago`` or ``2026-01-31T12:00`` means.

    Args:
        text: A duration, or a date with or without time and zone; without a zone it is local.
        now: Epoch seconds.

    Raises:
        ConfigError: It is neither.
    """
    stripped = text.strip()
    age = _AGO.fullmatch(stripped)
    try:
        if age is not None:
            return round((now - syntax.parse_duration(age[1]).exact_seconds) * 1000)
        return round(datetime.fromisoformat(stripped).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise ConfigError(
            f"--at '{text}': expected an age such as '10m ago', or a date and time such as 2026-01-31T12:00"
        ) from error


def job_key_of(asked: PassArguments, known: frozenset[JobKey]) -> JobKey:
    """Return the key of the job that was asked for.

    Raises:
        ConfigError: No job or several are meant.
    """
    candidates = sorted(key for key in known if asked.cluster is None or key.partition("/")[0] == asked.cluster)
    if asked.job in candidates:
        return asked.job
    named = [key for key in candidates if key.partition("/")[2] == asked.job]
    if len(named) == 1:
        return named[0]
    if named:
        raise ConfigError(f"several jobs are named '{asked.job}': {', '.join(named)}")
    more = f" and {len(candidates) - _SHOWN_JOBS} more" if len(candidates) > _SHOWN_JOBS else ""
    listed = ", ".join(candidates[:_SHOWN_JOBS]) or "none"
    hint = nearest(asked.job, [*candidates, *(key.partition("/")[2] for key in candidates)])
    raise ConfigError(f"no pass over the job '{asked.job}' is recorded; jobs with records: {listed}{more}{hint}")


def _found(file: Path | None, overrides: Sequence[str], asked: PassArguments) -> tuple[PassRecord, PassRecord]:
    """Return the pass that was asked for and the newest one of the job."""
    settings = prepare(file, overrides)
    at_ms = None if asked.at is None else read_instant(asked.at, time.time())
    with _opened(settings) as store:
        key = job_key_of(asked, store.job_keys())
        newest, found = store.latest(key), store.latest(key, at_ms)
    if found is None or newest is None:
        when = "" if at_ms is None else f" at or before {moment(at_ms)}"
        raise StoreError(f"no pass over {key}{when} is recorded (any more)")
    record = decode(found.text)
    return record, record if found == newest else decode(newest.text)


@contextmanager
def _opened(settings: Settings) -> Iterator[RecordStore]:
    if settings.standalone.jdbc_url is None:
        raise ConfigError(HOW_TO_RECORD)
    # Imported here: what a database needs may not be installed.
    from flink_autoscaler.standalone.ha.databases import open_database  # noqa: PLC0415
    from flink_autoscaler.stores.sql.records import SqlRecordStore  # noqa: PLC0415

    with closing(open_database(settings)) as database:
        yield SqlRecordStore(database)


def _export(record: PassRecord, path: Path) -> None:
    try:
        path.write_text(json.dumps(to_document(record), indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise ConfigError(f"--export {path}: {error.strerror}") from error
    sys.stdout.write(f"the pass of {moment(record.request.now_ms)} over {record.request.context.job_key}: {path}\n")


def _replay(record: PassRecord) -> int:
    again = replayed(record, installed_plugins())
    found = list(differences(record, again))
    subject = f"{record.request.context.job_key} at {moment(record.request.now_ms)}"
    kind = "rescale" if isinstance(record.outcome.decision, Rescale) else "hold"
    if not found:
        sys.stdout.write(f"{subject}: the same again ({record.outcome.phase.value}, {kind})\n")
        return 0
    sys.stdout.write(f"{subject}: not the same\n")
    for difference in found:
        sys.stdout.write(f"  {difference}\n")
    return 1
