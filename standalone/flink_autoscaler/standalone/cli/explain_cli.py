"""``explain`` and ``replay`` on the command line: options and help. What they do is in ``explain_commands``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from flink_autoscaler.standalone.cli.options import (
    ClusterOption,
    ConfigOption,
    DebugOption,
    JsonOption,
    SetOption,
    call,
)

_EXPLAIN_EXAMPLES: Final = (
    "\b\nExamples:\n"
    "  flink-autoscaler explain main/orders --config autoscaler.yaml\n"
    "  flink-autoscaler explain orders --at '10m ago' --vertex 'Source: orders'\n"
    "  flink-autoscaler explain orders --at 2026-01-31T12:00 --export pass.json"
)
_REPLAY_EXAMPLES: Final = (
    "\b\nExamples:\n"
    "  flink-autoscaler replay --job main/orders --at '1h ago' --config autoscaler.yaml\n"
    "  flink-autoscaler replay --record pass.json\n"
    "  flink-autoscaler replay --vectors scenarios_00.json.gz --output out.json\n"
    "\nExit code: 0 when a recorded pass comes to the same decision again, 1 when not."
)

_AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="The latest recorded pass at or before: '10m ago', or 2026-01-31T12:00. Without it: the newest.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(short_help="Tell why a job was or was not rescaled.", epilog=_EXPLAIN_EXAMPLES)(explain)
    app.command(short_help="Do recorded passes again and compare.", epilog=_REPLAY_EXAMPLES)(replay)


def explain(  # noqa: PLR0913, PLR0917 - one parameter per option
    job: Annotated[str, typer.Argument(metavar="JOB", help="Key of the job, or its name.", show_default=False)],
    config: ConfigOption = None,
    settings: SetOption = None,
    at: _AtOption = None,
    vertex: Annotated[
        str | None,
        typer.Option(
            "--vertex", metavar="NAME", help="Show all terms of this vertex, by name or id.", show_default=False
        ),
    ] = None,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Write the record as JSON instead.", show_default=False),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Tell why a job was or was not rescaled: what was measured, every term of the formula, and what limited it.

    Reads what the daemon has recorded in the database; passes that came to nothing new are recorded now and then.
    """

    def run_command() -> int:
        from flink_autoscaler.standalone.cli import explain_commands  # noqa: PLC0415 - only when it is needed

        asked = explain_commands.PassArguments(job, at, cluster)
        return explain_commands.explain_job(
            config, settings or [], asked, vertex=vertex, as_json=as_json, export=export
        )

    call(run_command, is_debug=debug)


def replay(  # noqa: PLR0913, PLR0917 - one parameter per option
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="JOB", help="Do a recorded pass over this job again.", show_default=False),
    ] = None,
    at: _AtOption = None,
    cluster: ClusterOption = None,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Do an exported pass again.", show_default=False),
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            "--vectors",
            metavar="FILE",
            help="Recorded behaviour of the reference (JSON, .gz or not).",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="Where to write what happened with --vectors (JSON).", show_default=False
        ),
    ] = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    debug: DebugOption = False,
) -> None:
    """Do recorded passes again: the same inputs have to lead to the same decision.

    With --vectors, recorded behaviour of the reference is replayed with compat: reference.
    """
    if [job is not None, record is not None, vectors is not None].count(True) != 1:
        raise typer.BadParameter("say what to replay: --job, --record or --vectors")
    if (vectors is None) != (output is None):
        raise typer.BadParameter("--vectors and --output belong together")

    def run_command() -> int:
        if vectors is not None and output is not None:
            from flink_autoscaler.standalone.cli import commands  # noqa: PLC0415 - only when it is needed

            return commands.replay(vectors, output)
        from flink_autoscaler.standalone.cli import explain_commands  # noqa: PLC0415 - only when it is needed

        if record is not None:
            return explain_commands.replay_file(record)
        asked = explain_commands.PassArguments(job or "", at, cluster)
        return explain_commands.replay_job(config, settings or [], asked)

    call(run_command, is_debug=debug)
