"""The commands for orders on the command line: options and help. What they do is in ``order_commands``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Annotated, Final

import typer

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.orders import PauseScope
from flink_autoscaler.standalone.cli.options import ConfigOption, DebugOption, JsonOption, SetOption, call

_CODES: Final = (
    "\nExit code: 0 when it was ordered or is so already, 1 when it was refused, 2 for a mistake in what was given."
)

JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="Key, name or id of a job, or the end of its key; * and ? match.")
]
ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the order.", show_default=False)
]
OptionalReasonOption = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept with the order.", show_default=False)
]
AsOption = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="Who orders it.  [default: login name@host]", show_default=False),
]
AllOption = Annotated[bool, typer.Option("--all", help="Do it for every job that JOB fits.")]
NewOption = Annotated[
    bool, typer.Option("--new", help="Take JOB for the exact key of a job that the daemon has not seen yet.")
]


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "".join(f"  flink-autoscaler {line}\n" for line in lines) + _CODES


def pause(  # noqa: PLR0913, PLR0917 - one parameter per option
    job: JobArgument,
    reason: ReasonOption,
    up: Annotated[bool, typer.Option("--up", help="Only scaling up.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Only scaling down.")] = False,
    duration: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="TIME", help="For how long, such as 2h.  [default: until resumed]", show_default=False
        ),
    ] = None,
    who: AsOption = None,
    takes_all: AllOption = False,
    is_new: NewOption = False,
    config: ConfigOption = None,
    settings: SetOption = None,
    debug: DebugOption = False,
) -> None:
    """Leave a job as it is, from the next pass on.

    It is still watched and reported, nothing new is decided. An earlier pause is replaced. Pins stay in force.
    """
    direction = PauseScope.BOTH if up == down else PauseScope.UP if up else PauseScope.DOWN
    given = {"job": job, "who": who, "reason": reason, "takes_all": takes_all, "is_new": is_new}
    _call(
        lambda commands: commands.pause(
            config, settings or [], commands.Asked(**given), direction=direction, duration=duration
        ),
        is_debug=debug,
    )


def resume(
    job: JobArgument,
    reason: OptionalReasonOption = None,
    who: AsOption = None,
    takes_all: AllOption = False,
    config: ConfigOption = None,
    settings: SetOption = None,
    debug: DebugOption = False,
) -> None:
    """Go on with a job.

    Ends a pause that was ordered, a pause after a rollback, and the time for which somebody else's change of the job's
    resource requirements is respected. What failed before stays in quarantine.
    """
    given = {"job": job, "who": who, "reason": reason, "takes_all": takes_all}
    _call(lambda commands: commands.resume(config, settings or [], commands.Asked(**given)), is_debug=debug)


def pin(  # noqa: PLR0913, PLR0917 - one parameter per option
    job: JobArgument,
    vertices: Annotated[
        list[str],
        typer.Argument(metavar="VERTEX=P...", help="Name or id of a vertex and its parallelism; * and ? match."),
    ],
    reason: ReasonOption,
    who: AsOption = None,
    takes_all: AllOption = False,
    is_new: NewOption = False,
    config: ConfigOption = None,
    settings: SetOption = None,
    debug: DebugOption = False,
) -> None:
    """Keep vertices of a job at a parallelism, from the next pass on, also while a person has paused it.

    The others are scaled as before. Of pins that fit the same vertex the latest counts.
    """
    given = {"job": job, "who": who, "reason": reason, "takes_all": takes_all, "is_new": is_new}
    _call(lambda commands: commands.pin(config, settings or [], commands.Asked(**given), pins=vertices), is_debug=debug)


def unpin(
    job: JobArgument,
    vertices: Annotated[
        list[str] | None,
        typer.Argument(metavar="[VERTEX...]", help="As they were pinned, without the parallelism; all unless given."),
    ] = None,
    reason: OptionalReasonOption = None,
    who: AsOption = None,
    takes_all: AllOption = False,
    config: ConfigOption = None,
    settings: SetOption = None,
    debug: DebugOption = False,
) -> None:
    """Scale vertices by load again. They stay as they are until that decides something else."""
    given = {"job": job, "who": who, "reason": reason, "takes_all": takes_all}
    _call(
        lambda commands: commands.unpin(config, settings or [], commands.Asked(**given), patterns=vertices or []),
        is_debug=debug,
    )


def rollback(
    job: JobArgument,
    reason: ReasonOption,
    who: AsOption = None,
    takes_all: AllOption = False,
    config: ConfigOption = None,
    settings: SetOption = None,
    debug: DebugOption = False,
) -> None:
    """Go back to the parallelism before the last rescale, in the next pass, also where the job fails.

    Scaling is paused after that until the job is resumed.
    """
    given = {"job": job, "who": who, "reason": reason, "takes_all": takes_all}
    _call(lambda commands: commands.rollback(config, settings or [], commands.Asked(**given)), is_debug=debug)


def reset(
    job: JobArgument,
    reason: ReasonOption,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this only show what would be forgotten.")] = False,
    who: AsOption = None,
    takes_all: AllOption = False,
    config: ConfigOption = None,
    settings: SetOption = None,
    debug: DebugOption = False,
) -> None:
    """Forget what was learned and decided about a job, in the next pass.

    The job keeps its parallelism. Metrics are collected anew, so that nothing is decided for a metric window. Pauses,
    pins and dry runs that were ordered stay in force.
    """
    given = {"job": job, "who": who, "reason": reason, "takes_all": takes_all}
    _call(
        lambda commands: commands.reset(config, settings or [], commands.Asked(**given), is_confirmed=yes),
        is_debug=debug,
    )


def dry_run(  # noqa: PLR0913, PLR0917 - one parameter per option
    job: JobArgument,
    switch: Annotated[str, typer.Argument(metavar="on|off", help="Whether to only decide and report.")],
    reason: OptionalReasonOption = None,
    who: AsOption = None,
    takes_all: AllOption = False,
    is_new: NewOption = False,
    config: ConfigOption = None,
    settings: SetOption = None,
    debug: DebugOption = False,
) -> None:
    """Decide and report for a job but change nothing, from the next pass on."""
    given = {"job": job, "who": who, "reason": reason, "takes_all": takes_all, "is_new": is_new}
    _call(
        lambda commands: commands.dry_run(config, settings or [], commands.Asked(**given), switch=switch),
        is_debug=debug,
    )


def orders(
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="Only jobs with this key, name or id; * and ? match.")
    ] = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what is ordered now, by whom and since when."""
    _call(lambda commands: commands.show(config, settings or [], job, as_json=as_json), is_debug=debug)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    add = app.command
    add(
        short_help="Leave a job as it is.",
        epilog=_examples(
            "pause orders --reason 'deployment of release 7' --for 2h",
            "pause 'prod/*' --down --all --reason 'sale on Friday'",
        ),
    )(pause)
    add(short_help="Go on with a job.", epilog=_examples("resume orders", "resume prod/orders --as alice"))(resume)
    add(
        short_help="Keep vertices at a parallelism.",
        epilog=_examples("pin orders 'Source: *=4' sink=2 --reason 'the database takes no more connections'"),
    )(pin)
    add(short_help="Scale vertices by load again.", epilog=_examples("unpin orders", "unpin orders sink"))(unpin)
    add(
        short_help="Undo the last rescale of a job.",
        epilog=_examples("rollback orders --reason 'latency doubled at 14:05'"),
    )(rollback)
    add(
        short_help="Forget what was learned about a job.",
        epilog=_examples("reset orders --reason 'other hardware since today'", "reset orders --reason 'same' --yes"),
    )(reset)
    add(
        "dry-run",
        short_help="Decide for a job but change nothing.",
        epilog=_examples("dry-run orders on --reason 'new options'", "dry-run orders off"),
    )(dry_run)
    add(
        short_help="Show what is ordered.",
        epilog="\b\nExamples:\n"
        "  flink-autoscaler orders --config autoscaler.yaml\n"
        "  flink-autoscaler orders 'prod/*' --json",
    )(orders)


def _call(command: Callable[[ModuleType], int], *, is_debug: bool) -> None:
    call(lambda: command(_commands()), is_debug=is_debug)


def _commands() -> ModuleType:
    """Import what the commands need: not before, so that --help and mistyped options do not wait for it."""
    try:
        return importlib.import_module("flink_autoscaler.standalone.cli.order_commands")
    except ModuleNotFoundError as error:
        if error.name not in ("alembic", "sqlalchemy"):
            raise
        extras = "flink-autoscaler[postgresql], [mysql] or [sql]"
        raise ConfigError(f"{error.name} is not installed, which a database needs: install {extras}") from error
