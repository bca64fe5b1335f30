"""Orders to a running daemon: ``pause``, ``resume``, ``pin``, ``unpin``, ``rollback``, ``reset``, ``dry-run``."""

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
from flink_autoscaler.core.model.orders import MOST_PARALLELISM, PauseScope
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

if TYPE_CHECKING:
    from flink_autoscaler.standalone.cli.daemon_client import DaemonOrders
    from flink_autoscaler.standalone.orders.service import OrderService

app = typer.Typer()

_CODES: Final = (
    "0 when the command is accepted or already in force, 1 when it is refused, 2 for a mistake in its words."
)
_order = partial(cli.command, app, codes=_CODES)
_COLUMNS: Final = {
    "JOB": "job_key",
    "ORDER": "order",
    "BY": "by",
    "SINCE": "since",
    "UNTIL": "until",
    "REASON": "reason",
}
_LONGEST_REASON: Final = 500
_LONGEST_NAME: Final = 100

_REASON: Final = cli.valued("--reason", "TEXT", "Reason, kept with the command.")
ReasonOption = Annotated[str, _REASON]
OptionalReasonOption = Annotated[str | None, _REASON]
NewOption = Annotated[bool, cli.switch("--new", "JOB is the exact key of a job that the daemon has not seen yet.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orderer:
    """The options of every order: for which jobs, who gives it, and where."""

    job: Annotated[str, cli.argument("JOB", "Key, name or id of a job, or the end of its key; * and ? match.")]
    given: cli.GivenSettings
    who: Annotated[str | None, cli.valued("--as", "NAME", "Author.  [default: login name@host]")] = None
    takes_all: Annotated[bool, cli.switch("--all", "Every job that matches JOB.")] = False
    url: cli.UrlOption = None

    def give(self, order: str, reason: str | None, *, is_new: bool = False, is_sure: bool = True, **more: Any) -> int:
        """Give an order for the jobs that are meant, and return the exit code.

        Args:
            order: Of :class:`flink_autoscaler.core.supervise.order_book.OperatorCommand`, as ``more`` is.
            reason: Why; None where none is needed.
            is_new: Whether the job is the key of one that the daemon has not seen yet.
            is_sure: Whether it was confirmed.
            more: Further attributes of the order.

        Raises:
            ConfigError: The name or the reason cannot be kept, or it was not confirmed.
            UnclearJobError: It is not clear which jobs are meant.
        """
        from flink_autoscaler.core.supervise.order_book import NEEDS_REASON, OperatorCommand

        command = OperatorCommand(order, **more)
        who = _kept("--as", _login() if self.who is None else self.who, _LONGEST_NAME)
        why = _kept("--reason", reason or "", _LONGEST_REASON)
        if order in NEEDS_REASON and not why:
            raise ConfigError("--reason is empty: say why, for those who come after you")
        if not who:
            raise ConfigError("--as is empty: say who you are")
        if self.url is not None and (self.takes_all or is_new or self.who is not None):
            raise ConfigError(
                "--all, --new and --as are for the database; with --url name one job, and the token says who"
            )
        with _opened(self.url, self.given) as service:
            job_keys = service.jobs(self.job, takes_all=self.takes_all, is_new=is_new)
            for job_key in job_keys if order == "reset" else ():
                _say(job_key, f"A reset forgets: {service.remembered(job_key)}", is_refused=False)
            if not is_sure:
                raise ConfigError("nothing was changed: add --yes to have this forgotten")
            ordered = service.order(job_keys, command, who, why)
            return max((_say(key, text, is_refused=is_refused) for key, text, is_refused in ordered), default=0)


def _opened(url: str | None, given: cli.GivenSettings) -> AbstractContextManager[OrderService | DaemonOrders]:
    """Open where orders are given: the running daemon at a URL, else the database of the settings."""
    if url is not None:
        from flink_autoscaler.standalone.cli.daemon_client import DaemonOrders

        return nullcontext(DaemonOrders(url))
    from flink_autoscaler.standalone.orders.service import opened_service

    return opened_service(given.prepare_stored())


@_order(
    "flink-autoscaler pause orders --reason 'deployment of release 7' --for 2h",
    "flink-autoscaler pause 'prod/*' --down --all --reason 'sale on Friday'",
    short_help="Suspend the scaling of a job.",
)
def pause(
    by: Orderer,
    *,
    reason: ReasonOption,
    up: Annotated[bool, cli.switch("--up", "Only scaling up.")] = False,
    down: Annotated[bool, cli.switch("--down", "Only scaling down.")] = False,
    duration: Annotated[
        str | None, cli.valued("--for", "TIME", "Duration, such as 2h.  [default: until resumed]")
    ] = None,
    is_new: NewOption = False,
) -> int:
    """Suspend the scaling of a job, from the next pass on.

    The daemon still observes and reports the job. Replaces an earlier pause. Pins stay in force.
    """
    direction = PauseScope.BOTH if up == down else PauseScope.UP if up else PauseScope.DOWN
    lasts_ms = None if duration is None else _lasting(duration)
    return by.give("pause", reason, is_new=is_new, direction=direction, lasts_ms=lasts_ms)


@_order(
    "flink-autoscaler resume orders",
    "flink-autoscaler resume prod/orders --as alice",
    short_help="Resume the scaling of a job.",
)
def resume(by: Orderer, *, reason: OptionalReasonOption = None) -> int:
    """Resume the scaling of a job.

    Ends a pause, also one after a rollback or after somebody else's change of the job's resource requirements.
    Parallelism that failed stays in quarantine.
    """
    return by.give("resume", reason)


@_order(
    "flink-autoscaler pin orders 'Source: *=4' sink=2 --reason 'the database takes no more connections'",
    short_help="Fix the parallelism of vertices.",
)
def pin(
    by: Orderer,
    *,
    vertices: Annotated[
        list[str],
        cli.argument("VERTEX=P...", "Name or id of a vertex and its parallelism; * and ? match."),
    ],
    reason: ReasonOption,
    is_forced: Annotated[
        bool, cli.switch("--force", "Pin even without a matching vertex, bounds, quota or slots.")
    ] = False,
    is_new: NewOption = False,
) -> int:
    """Fix the parallelism of vertices from the next pass on, also while the job is paused.

    Other vertices scale as before. The latest matching pin counts. A pin that the job's latest recorded pass does not
    allow is refused.
    """
    return by.give("pin", reason, is_new=is_new, vertices=dict(map(_pinned, vertices)), is_forced=is_forced)


@_order(
    "flink-autoscaler unpin orders",
    "flink-autoscaler unpin orders sink",
    short_help="Scale vertices by load again.",
)
def unpin(
    by: Orderer,
    *,
    vertices: Annotated[
        list[str] | None,
        cli.argument("[VERTEX...]", "As pinned, without the parallelism.  [default: all]"),
    ] = None,
    reason: OptionalReasonOption = None,
) -> int:
    """Scale vertices by load again. They keep their parallelism until the next decision."""
    return by.give("unpin", reason, vertices=dict.fromkeys(vertices or (), 1))


@_order(
    "flink-autoscaler rollback orders --reason 'latency doubled at 14:05'",
    short_help="Undo the last rescale of a job.",
)
def rollback(by: Orderer, *, reason: ReasonOption) -> int:
    """Go back to the parallelism before the last rescale, in the next pass, even if the job fails.

    The job is then paused until you resume it.
    """
    return by.give("rollback", reason)


@_order(
    "flink-autoscaler reset orders --reason 'other hardware since today'",
    "flink-autoscaler reset orders --reason 'same' --yes",
    short_help="Forget what the daemon learned about a job.",
)
def reset(
    by: Orderer,
    *,
    reason: ReasonOption,
    yes: Annotated[bool, cli.switch("--yes", "Do it; otherwise only show what would be forgotten.")] = False,
) -> int:
    """Forget what the daemon learned and decided about a job, in the next pass.

    The job keeps its parallelism, and its metric window starts anew. Pauses, pins and dry runs stay in force.
    """
    return by.give("reset", reason, is_sure=yes)


@_order(
    "flink-autoscaler dry-run orders on --reason 'new options'",
    "flink-autoscaler dry-run orders off",
    short_help="Decide about a job, but change nothing.",
    name="dry-run",
)
def dry_run(
    by: Orderer,
    *,
    switch: Annotated[str, cli.argument("on|off", "on: decide and report only.")],
    reason: OptionalReasonOption = None,
    is_new: NewOption = False,
) -> int:
    """Decide and report about a job, but change nothing, from the next pass on."""
    order = {"on": "dry-run", "off": "live"}.get(switch.lower())
    if order is None:
        raise ConfigError(f"dry-run '{switch}': expected on or off")
    return by.give(order, reason, is_new=is_new)


@cli.command(
    app,
    "flink-autoscaler orders --config autoscaler.yaml",
    "flink-autoscaler orders 'prod/*' --json",
    short_help="Show operator commands in force.",
)
def orders(
    *,
    job: Annotated[str | None, cli.argument("[JOB]", "Only jobs with this key, name or id; * and ? match.")] = None,
    given: cli.GivenSettings,
    as_json: cli.JsonOption = False,
    url: cli.UrlOption = None,
) -> int:
    """Show operator commands in force, with author and time."""
    with _opened(url, given) as service:
        documents, rows = service.listed(job)
    out.show("orders", documents if as_json else rows, _COLUMNS, as_json=as_json, if_empty="no orders")
    return 0


def _say(job_key: str, text: str, *, is_refused: bool) -> int:
    """Say what came of an order; return the exit code."""
    if is_refused:
        out.print_error(f"{out.one_line(job_key)}: {text}")
        return cli.EXIT_FAILED
    out.write_out(f"{out.one_line(job_key)}: {out.one_line(text)}\n")
    return 0


def _lasting(text: str) -> int:
    """Return the milliseconds that ``--for`` means.

    Raises:
        ConfigError: It is no duration with a unit.
    """
    milliseconds = 0 if text.strip().isdigit() else round(cli.read_seconds("--for", text.strip(), "2h") * 1000)
    if milliseconds <= 0:
        raise ConfigError(f"--for '{text}': expected a duration above 0 with a unit, such as 2h")
    return milliseconds


def _pinned(text: str) -> tuple[str, int]:
    """Return pattern and parallelism of ``VERTEX=PARALLELISM``.

    Raises:
        ConfigError: It is something else.
    """
    from flink_autoscaler.standalone.fetchers.job_keys import printable

    pattern, equals, number = text.rpartition("=")
    try:
        parallelism = syntax.parse_int(number.strip())
    except ValueError:
        parallelism = 0
    if not (pattern.strip() and equals) or not 1 <= parallelism <= MOST_PARALLELISM:
        raise ConfigError(f"'{text}': expected VERTEX=PARALLELISM, such as 'Source: *=4', from 1 to {MOST_PARALLELISM}")
    return printable(pattern.strip()), parallelism


def _kept(option: str, text: str, longest: int) -> str:
    from flink_autoscaler.standalone.fetchers.job_keys import printable

    if len(text) > longest:
        raise ConfigError(f"{option}: {len(text)} characters; at most {longest} are kept")
    return printable(" ".join(text.split()))


def _login() -> str:
    """Name the person as far as the system knows; who became root has a name besides."""
    try:
        name = os.environ.get("SUDO_USER") or getpass.getuser()
    except (OSError, KeyError):
        name = f"uid {os.getuid()}"  # a container need not know its users
    return f"{name}@{socket.gethostname()}"[:_LONGEST_NAME]
