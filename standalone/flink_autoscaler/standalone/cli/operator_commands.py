"""Operator commands to a daemon: ``pause``, ``resume``, ``pin``, ``unpin``, ``rollback``, ``reset``, ``dry-run``."""

from __future__ import annotations

import getpass
import os
import socket
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.orders import MAX_PARALLELISM, PauseScope
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

if TYPE_CHECKING:
    from flink_autoscaler.standalone.cli.daemon_client import DaemonCommands
    from flink_autoscaler.standalone.operator_commands.service import CommandService

app = typer.Typer()

_CODES: Final = (
    "0 when the command is accepted or already in force, 1 when it is refused, 2 for a mistake in its words."
)
_operator_command = partial(cli.command, app, codes=_CODES)
_COLUMNS: Final = {
    "JOB": "job_key",
    "ORDER": "order",
    "BY": "by",
    "SINCE": "since",
    "UNTIL": "until",
    "REASON": "reason",
}
_MAX_REASON_LENGTH: Final = 500
_MAX_NAME_LENGTH: Final = 100

_REASON: Final = cli.value_option("--reason", "TEXT", "Reason, kept with the command.")
ReasonOption = Annotated[str, _REASON]
OptionalReasonOption = Annotated[str | None, _REASON]
NewOption = Annotated[bool, cli.flag_option("--new", "JOB is the exact key of a job that the daemon has not seen yet.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """The options of every order: for which jobs, who gives it, and where."""

    job: Annotated[str, cli.argument("JOB", "Key, name or id of a job, or the end of its key; * and ? match.")]
    settings_options: cli.SettingsOptions
    author: Annotated[str | None, cli.value_option("--as", "NAME", "Author.  [default: login name@host]")] = None
    takes_all: Annotated[bool, cli.flag_option("--all", "Every job that matches JOB.")] = False
    url: cli.UrlOption = None

    def submit(self, order: str, reason: str | None, *, is_new: bool = False, is_sure: bool = True, **more: Any) -> int:
        """Give an order for the jobs that are meant, and return the exit code.

        Args:
            order: Of :class:`flink_autoscaler.core.rescale.operator_commands.OperatorCommand`, as ``more`` is.
            reason: Why; None where none is needed.
            is_new: Whether the job is the key of one that the daemon has not seen yet.
            is_sure: Whether it was confirmed.
            more: Further attributes of the order.

        Raises:
            ConfigError: The name or the reason cannot be kept, or it was not confirmed.
            AmbiguousJobError: It is not clear which jobs are meant.
        """
        from flink_autoscaler.core.rescale.operator_commands import NEEDS_REASON, OperatorCommand

        command = OperatorCommand(order, **more)
        who = _validate_text("--as", _login_name() if self.author is None else self.author, _MAX_NAME_LENGTH)
        why = _validate_text("--reason", reason or "", _MAX_REASON_LENGTH)
        if order in NEEDS_REASON and not why:
            raise ConfigError("--reason is empty: say why, for those who come after you")
        if not who:
            raise ConfigError("--as is empty: say who you are")
        if self.url is not None and (self.takes_all or is_new or self.author is not None):
            raise ConfigError(
                "--all, --new and --as are for the database; with --daemon-url name one job, and the token says who"
            )
        with _open_service(self.url, self.settings_options) as service:
            job_keys = service.resolve_jobs(self.job, takes_all=self.takes_all, is_new=is_new)
            for job_key in job_keys if order == "reset" else ():
                _print_result(job_key, f"A reset forgets: {service.describe_memory(job_key)}", is_refused=False)
            if not is_sure:
                raise ConfigError("nothing was changed: add --yes to have this forgotten")
            ordered = service.submit(job_keys, command, who, why)
            return max(
                (_print_result(key, text, is_refused=is_refused) for key, text, is_refused in ordered), default=0
            )


def _open_service(
    url: str | None, settings_options: cli.SettingsOptions
) -> AbstractContextManager[CommandService | DaemonCommands]:
    """Open where orders are given: the running daemon at a URL, else the database of the settings."""
    if url is not None:
        from flink_autoscaler.standalone.cli.daemon_client import DaemonCommands

        return nullcontext(DaemonCommands(url))
    from flink_autoscaler.standalone.operator_commands.service import open_service

    return open_service(settings_options.load_settings_with_state())


@_operator_command(
    "flink-autoscaler pause orders --reason 'deployment of release 7' --for 2h",
    "flink-autoscaler pause 'prod/*' --down --all --reason 'sale on Friday'",
    name="pause",
    short_help="Suspend the scaling of a job.",
)
def pause_job(
    by: CommandOptions,
    *,
    reason: ReasonOption,
    up: Annotated[bool, cli.flag_option("--up", "Only scaling up.")] = False,
    down: Annotated[bool, cli.flag_option("--down", "Only scaling down.")] = False,
    duration: Annotated[
        str | None, cli.value_option("--for", "TIME", "Duration, such as 2h.  [default: until resumed]")
    ] = None,
    is_new: NewOption = False,
) -> int:
    """Suspend the scaling of a job, from the next pass on.

    The daemon still observes and reports the job. Replaces an earlier pause. Pins stay in force.
    """
    direction = PauseScope.BOTH if up == down else PauseScope.UP if up else PauseScope.DOWN
    lasts_ms = None if duration is None else _parse_duration_ms(duration)
    return by.submit("pause", reason, is_new=is_new, direction=direction, lasts_ms=lasts_ms)


@_operator_command(
    "flink-autoscaler resume orders",
    "flink-autoscaler resume prod/orders --as alice",
    name="resume",
    short_help="Resume the scaling of a job.",
)
def resume_job(by: CommandOptions, *, reason: OptionalReasonOption = None) -> int:
    """Resume the scaling of a job.

    Ends a pause, also one after a rollback or after somebody else's change of the job's resource requirements.
    Parallelism that failed stays in quarantine.
    """
    return by.submit("resume", reason)


@_operator_command(
    "flink-autoscaler pin orders 'Source: *=4' sink=2 --reason 'the database takes no more connections'",
    name="pin",
    short_help="Fix the parallelism of vertices.",
)
def pin_vertices(
    by: CommandOptions,
    *,
    vertices: Annotated[
        list[str],
        cli.argument("VERTEX=P...", "Name or id of a vertex and its parallelism; * and ? match."),
    ],
    reason: ReasonOption,
    is_forced: Annotated[
        bool, cli.flag_option("--force", "Pin even without a matching vertex, bounds, quota or slots.")
    ] = False,
    is_new: NewOption = False,
) -> int:
    """Fix the parallelism of vertices from the next pass on, also while the job is paused.

    Other vertices scale as before. The latest matching pin counts. A pin that the job's latest recorded pass does not
    allow is refused.
    """
    return by.submit("pin", reason, is_new=is_new, vertices=dict(map(_parse_pin, vertices)), is_forced=is_forced)


@_operator_command(
    "flink-autoscaler unpin orders",
    "flink-autoscaler unpin orders sink",
    name="unpin",
    short_help="Scale vertices by load again.",
)
def unpin_vertices(
    by: CommandOptions,
    *,
    vertices: Annotated[
        list[str] | None,
        cli.argument("[VERTEX...]", "As pinned, without the parallelism.  [default: all]"),
    ] = None,
    reason: OptionalReasonOption = None,
) -> int:
    """Scale vertices by load again. They keep their parallelism until the next decision."""
    return by.submit("unpin", reason, vertices=dict.fromkeys(vertices or (), 1))


@_operator_command(
    "flink-autoscaler rollback orders --reason 'latency doubled at 14:05'",
    name="rollback",
    short_help="Undo the last rescale of a job.",
)
def roll_back_job(by: CommandOptions, *, reason: ReasonOption) -> int:
    """Go back to the parallelism before the last rescale, in the next pass, even if the job fails.

    The job is then paused until you resume it.
    """
    return by.submit("rollback", reason)


@_operator_command(
    "flink-autoscaler reset orders --reason 'other hardware since today'",
    "flink-autoscaler reset orders --reason 'same' --yes",
    name="reset",
    short_help="Forget what the daemon learned about a job.",
)
def reset_job(
    by: CommandOptions,
    *,
    reason: ReasonOption,
    yes: Annotated[bool, cli.flag_option("--yes", "Do it; otherwise only show what would be forgotten.")] = False,
) -> int:
    """Forget what the daemon learned and decided about a job, in the next pass.

    The job keeps its parallelism, and its metric window starts anew. Pauses, pins and dry runs stay in force.
    """
    return by.submit("reset", reason, is_sure=yes)


@_operator_command(
    "flink-autoscaler dry-run orders on --reason 'new options'",
    "flink-autoscaler dry-run orders off",
    short_help="Decide about a job, but change nothing.",
    name="dry-run",
)
def set_dry_run(
    by: CommandOptions,
    *,
    switch: Annotated[str, cli.argument("on|off", "on: decide and report only.")],
    reason: OptionalReasonOption = None,
    is_new: NewOption = False,
) -> int:
    """Decide and report about a job, but change nothing, from the next pass on."""
    order = {"on": "dry-run", "off": "live"}.get(switch.lower())
    if order is None:
        raise ConfigError(f"dry-run '{switch}': expected on or off")
    return by.submit(order, reason, is_new=is_new)


@cli.command(
    app,
    "flink-autoscaler commands --config autoscaler.yaml",
    "flink-autoscaler commands 'prod/*' --json",
    name="commands",
    short_help="Show operator commands in force.",
)
def list_commands(
    *,
    job: Annotated[str | None, cli.argument("[JOB]", "Only jobs with this key, name or id; * and ? match.")] = None,
    settings_options: cli.SettingsOptions,
    as_json: cli.JsonOption = False,
    url: cli.UrlOption = None,
) -> int:
    """Show operator commands in force, with author and time."""
    with _open_service(url, settings_options) as service:
        documents, rows = service.list_commands(job)
    out.print_documents("commands", documents if as_json else rows, _COLUMNS, as_json=as_json, if_empty="no commands")
    return 0


def _print_result(job_key: str, text: str, *, is_refused: bool) -> int:
    """Say what came of an order; return the exit code."""
    if is_refused:
        out.print_error(f"{out.one_line(job_key)}: {text}")
        return cli.EXIT_FAILED
    out.write_out(f"{out.one_line(job_key)}: {out.one_line(text)}\n")
    return 0


def _parse_duration_ms(text: str) -> int:
    """Return the milliseconds that ``--for`` means.

    Raises:
        ConfigError: It is no duration with a unit.
    """
    milliseconds = 0 if text.strip().isdigit() else round(cli.read_seconds("--for", text.strip(), "2h") * 1000)
    if milliseconds <= 0:
        raise ConfigError(f"--for '{text}': expected a duration above 0 with a unit, such as 2h")
    return milliseconds


def _parse_pin(text: str) -> tuple[str, int]:
    """Return pattern and parallelism of ``VERTEX=PARALLELISM``.

    Raises:
        ConfigError: It is something else.
    """
    from flink_autoscaler.standalone.fetchers.job_keys import to_printable

    pattern, equals, number = text.rpartition("=")
    try:
        parallelism = syntax.parse_int(number.strip())
    except ValueError:
        parallelism = 0
    if not (pattern.strip() and equals) or not 1 <= parallelism <= MAX_PARALLELISM:
        raise ConfigError(f"'{text}': expected VERTEX=PARALLELISM, such as 'Source: *=4', from 1 to {MAX_PARALLELISM}")
    return to_printable(pattern.strip()), parallelism


def _validate_text(option: str, text: str, longest: int) -> str:
    from flink_autoscaler.standalone.fetchers.job_keys import to_printable

    if len(text) > longest:
        raise ConfigError(f"{option}: {len(text)} characters; at most {longest} are kept")
    return to_printable(" ".join(text.split()))


def _login_name() -> str:
    """Name the person as far as the system knows; who became root has a name besides."""
    try:
        name = os.environ.get("SUDO_USER") or getpass.getuser()
    except (OSError, KeyError):
        name = f"uid {os.getuid()}"  # a container need not know its users
    return f"{name}@{socket.gethostname()}"[:_MAX_NAME_LENGTH]
