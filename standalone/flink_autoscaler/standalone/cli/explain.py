"""``explain`` and ``replay``: tell of recorded passes, and do them again."""

from __future__ import annotations

import importlib
import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

if TYPE_CHECKING:
    from flink_autoscaler.standalone.records.codec import PassRecord

app = typer.Typer()

AtOption = Annotated[
    str | None,
    cli.valued(
        "--at", "TIME", "Latest recorded pass at or before: '10m ago', or 2026-01-31T12:00.  [default: the newest]"
    ),
]

_TOOLS: Final = Path(__file__).parents[4] / "tools"
"""Where a clone has what is not in the wheel."""

_HOW_TO_RECORD: Final = (
    "passes are recorded in a database, and there is none here: a daemon has one of its own, which its user finds "
    "with its STATE_DIRECTORY; for another set autoscaler.standalone.state-store.type: JDBC and "
    "autoscaler.standalone.jdbc.url, and restart the daemon; without it, flink-autoscaler once --json shows a pass"
)


@cli.command(
    app,
    "flink-autoscaler explain main/orders --config autoscaler.yaml",
    "flink-autoscaler explain orders --at '10m ago' --vertex 'Source: orders'",
    "flink-autoscaler explain orders --at 2026-01-31T12:00 --export pass.json",
    "flink-autoscaler explain orders --url http://127.0.0.1:8484",
    short_help="Explain why a job was or was not rescaled.",
)
def explain(
    job: Annotated[
        str,
        cli.argument("JOB", "Key, name or id of the job, or the end of its key; * and ? match."),
    ],
    given: cli.GivenSettings,
    at: AtOption = None,
    vertex: Annotated[str | None, cli.valued("--vertex", "NAME", "Show all terms of this vertex (name or id).")] = None,
    cluster: cli.ClusterOption = None,
    as_json: cli.JsonOption = False,
    export: Annotated[Path | None, cli.valued("--export", "FILE", "Write the record as JSON.")] = None,
    url: cli.UrlOption = None,
) -> int:
    """Explain why a job was or was not rescaled: measurements, every term of the formula, and limits.

    Reads recorded passes from the database, or with --url from the daemon. Of passes with nothing new, only some are
    recorded.
    """
    from flink_autoscaler.standalone.views import explanation as explaining
    from flink_autoscaler.standalone.views.explanation_text import explanation_sections

    record, newest = _found(given, job, at, cluster) if url is None else _fetched(url, job, at)
    if export is not None:
        _export(record, export)
        return 0
    explained = explaining.explain_pass(record, newest)
    known = [each.name for each in explained.vertices]
    if vertex is not None and vertex not in (*known, *(each.vertex_id for each in explained.vertices)):
        raise ConfigError(f"--vertex '{vertex}': the job has {', '.join(known) or 'no vertices then'}")
    if as_json:
        out.print_document(explaining.pass_view(explained).model_dump())
    else:
        now_ms = None if at else round(time.time() * 1000)
        out.print_sections(explanation_sections(explained, vertex, now_ms=now_ms))
    return 0


@cli.command(
    app,
    "flink-autoscaler replay --job main/orders --at '1h ago' --config autoscaler.yaml",
    "flink-autoscaler replay --record pass.json",
    "flink-autoscaler replay --vectors scenarios_00.json.gz --output out.json",
    codes="0 when the decision is the same, 1 when not.",
    short_help="Repeat recorded passes and compare.",
)
def replay(
    *,
    job: Annotated[str | None, cli.valued("--job", "JOB", "Repeat a recorded pass over this job.")] = None,
    at: AtOption = None,
    cluster: cli.ClusterOption = None,
    record: Annotated[Path | None, cli.valued("--record", "FILE", "Repeat an exported pass.")] = None,
    vectors: Annotated[
        Path | None,
        cli.valued("--vectors", "FILE", "Recorded behaviour of the reference (JSON or .gz), in a clone."),
    ] = None,
    output: Annotated[Path | None, cli.valued("--output", "FILE", "File for the results of --vectors (JSON).")] = None,
    given: cli.GivenSettings,
) -> int:
    """Repeat recorded passes: the same inputs must lead to the same decision.

    --vectors replays recordings of the reference with compat: reference.
    """
    if [job is not None, record is not None, vectors is not None].count(True) != 1:
        raise typer.BadParameter("say what to replay: --job, --record or --vectors")
    if (vectors is None) != (output is None):
        raise typer.BadParameter("--vectors and --output belong together")
    if vectors is not None and output is not None:
        return _replay_vectors(vectors, output)
    return _replay(_exported(record) if record is not None else _found(given, job or "", at, cluster)[0])


def _found(given: cli.GivenSettings, job: str, at: str | None, cluster: str | None) -> tuple[PassRecord, PassRecord]:
    """Return the pass that was asked for and the newest one of the job."""
    from flink_autoscaler.standalone.records.codec import decode
    from flink_autoscaler.standalone.views.explanation_text import moment

    prepared = given.prepare_stored()
    at_ms = None if at is None else cli.read_instant(at, time.time())
    if prepared.standalone.jdbc_url is None:
        raise ConfigError(_HOW_TO_RECORD)
    # Imported here: what a database needs may not be installed.
    from flink_autoscaler.standalone.ha.databases import open_database
    from flink_autoscaler.standalone.orders.named_jobs import chosen_jobs
    from flink_autoscaler.stores.sql.known_jobs import KnownJob
    from flink_autoscaler.stores.sql.records import SqlRecordStore

    with closing(open_database(prepared)) as database:
        store = SqlRecordStore(database)
        recorded = sorted(key for key in store.job_keys() if cluster in (None, key.partition("/")[0]))
        (key,) = chosen_jobs(list(map(KnownJob, recorded)), job)
        newest, found = store.latest(key), store.latest(key, at_ms)
    if found is None or newest is None:
        when = "" if at_ms is None else f" at or before {moment(at_ms)}"
        raise StoreError(f"no pass over {key}{when} is recorded (any more)")
    record = decode(found.text)
    return record, record if found == newest else decode(newest.text)


def _fetched(url: str, job: str, at: str | None) -> tuple[PassRecord, PassRecord]:
    """Return the pass that was asked for and the newest one of the job, from a running daemon."""
    from flink_autoscaler.standalone.cli.daemon_client import fetch, job_of_daemon
    from flink_autoscaler.standalone.records.codec import read_export

    key, at_ms = job_of_daemon(url, job), None if at is None else cli.read_instant(at, time.time())
    newest = read_export(fetch(url, "/api/v1/record", job=key))
    return newest if at_ms is None else read_export(fetch(url, "/api/v1/record", job=key, at_ms=at_ms)), newest


def _export(record: PassRecord, path: Path) -> None:
    from flink_autoscaler.standalone.records.codec import to_document
    from flink_autoscaler.standalone.views.explanation_text import moment

    with out.whole_file(path, replaces=True, option="--export") as stream:
        stream.write((json.dumps(to_document(record), indent=1, allow_nan=False) + "\n").encode())
    out.write_out(f"the pass of {moment(record.request.now_ms)} over {record.request.context.job_key}: {path}\n")


def _exported(path: Path) -> PassRecord:
    """Read a file that ``--export`` wrote.

    Raises:
        ConfigError: It cannot be read.
    """
    from flink_autoscaler.standalone.records.codec import READ_LIMIT, read_export
    from flink_autoscaler.standalone.settings.sources.layer import FileUnreadableError, read_bytes

    try:
        return read_export(read_bytes(path, READ_LIMIT))
    except FileUnreadableError as error:
        raise ConfigError(f"--record {error}") from error
    except StoreError as error:
        raise ConfigError(f"--record {path}: {error}") from error


def _replay(record: PassRecord) -> int:
    """Do a recorded pass again and compare; return the exit code."""
    from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
    from flink_autoscaler.standalone.records.replay import differences, replayed
    from flink_autoscaler.standalone.views.explanation_text import moment

    found = list(differences(record, replayed(record, installed_plugins())))
    subject = f"{record.request.context.job_key} at {moment(record.request.now_ms)}"
    kind = record.outcome.decision.kind
    if not found:
        out.write_out(f"{subject}: the same again ({record.outcome.phase.value}, {kind})\n")
        return 0
    out.write_out(f"{subject}: not the same\n")
    for difference in found:
        out.write_out(f"  {difference}\n")
    return 1


def _replay_vectors(vectors: Path, output: Path) -> int:
    """Replay behaviour vectors and write what happened; return the exit code."""
    from flink_autoscaler.standalone.settings.logs import configure_logging

    sys.path.append(str(_TOOLS))
    try:
        tool = importlib.import_module("behaviour_vectors")
    except ModuleNotFoundError as error:
        raise ConfigError("--vectors: works in a clone of the project alone, with tools/behaviour_vectors") from error
    configure_logging(log_format="auto", level="error")
    given = tool.read_vectors(vectors)
    with out.whole_file(output, replaces=True) as stream, out.progress("replaying") as tell:
        replayed = tool.replay(given, progress=tell)
        stream.write(json.dumps(replayed).encode())
    out.write_out(f"{len(replayed['cases'])} cases replayed, written to {output}\n")
    return 0
