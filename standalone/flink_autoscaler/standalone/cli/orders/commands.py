"""Orders to a running daemon: ``pause``, ``resume``, ``pin``, ``unpin``, ``rollback``, ``reset``, ``dry-run``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from flink_autoscaler.standalone.cli.command import GivenSettings, JsonOption, UrlOption, command, mistake, valued

app = typer.Typer()

_CODES: Final = "0 when it was ordered or is so already, 1 when it was refused, 2 for a mistake in what was given."
_REASON: Final = valued("--reason", metavar="TEXT", text="Why; kept with the order.")
ReasonOption = Annotated[str, _REASON]
OptionalReasonOption = Annotated[str | None, _REASON]
NewOption = Annotated[
    bool, typer.Option("--new", help="Take JOB for the exact key of a job that the daemon has not seen yet.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orderer:
    """The options of every order: for which jobs, who gives it, and where."""

    job: Annotated[
        str, typer.Argument(metavar="JOB", help="Key, name or id of a job, or the end of its key; * and ? match.")
    ]
    given: GivenSettings
    who: Annotated[str | None, valued("--as", metavar="NAME", text="Who orders it.  [default: login name@host]")] = None
    takes_all: Annotated[bool, typer.Option("--all", help="Do it for every job that JOB fits.")] = False
    url: UrlOption = None

    def orders(self, order: str, reason: str | None, *, is_new: bool = False, is_sure: bool = True, **more: Any) -> int:
        """Give an order and return the exit code.

        Args:
            order: Of :class:`flink_autoscaler.core.supervise.order_book.OperatorCommand`, as ``more`` is.
            reason: Why; None where none is needed.
            is_new: Whether the job is the key of one that the daemon has not seen yet.
            is_sure: Whether it was confirmed.
            more: Further attributes of the order.
        """
        from flink_autoscaler.core.supervise.order_book import OperatorCommand
        from flink_autoscaler.standalone.cli.orders.service import give

        return give(self, OperatorCommand(order, **more), reason or "", is_new=is_new, is_sure=is_sure)


@command(
    app,
    "flink-autoscaler pause orders --reason 'deployment of release 7' --for 2h",
    "flink-autoscaler pause 'prod/*' --down --all --reason 'sale on Friday'",
    codes=_CODES,
    short_help="Leave a job as it is.",
)
def pause(
    by: Orderer,
    *,
    reason: ReasonOption,
    up: Annotated[bool, typer.Option("--up", help="Only scaling up.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Only scaling down.")] = False,
    duration: Annotated[
        str | None, valued("--for", metavar="TIME", text="For how long, such as 2h.  [default: until resumed]")
    ] = None,
    is_new: NewOption = False,
) -> int:
    """Leave a job as it is, from the next pass on.

    It is still watched and reported, nothing new is decided. An earlier pause is replaced. Pins stay in force.
    """
    from flink_autoscaler.core.model.orders import PauseScope
    from flink_autoscaler.standalone.cli.orders.service import lasting

    direction = PauseScope.BOTH if up == down else PauseScope.UP if up else PauseScope.DOWN
    lasts_ms = None if duration is None else lasting(duration)
    return by.orders("pause", reason, is_new=is_new, direction=direction, lasts_ms=lasts_ms)


@command(
    app,
    "flink-autoscaler resume orders",
    "flink-autoscaler resume prod/orders --as alice",
    codes=_CODES,
    short_help="Go on with a job.",
)
def resume(by: Orderer, *, reason: OptionalReasonOption = None) -> int:
    """Go on with a job.

    Ends a pause that was ordered, a pause after a rollback, and the time for which somebody else's change of the job's
    resource requirements is respected. What failed before stays in quarantine.
    """
    return by.orders("resume", reason)


@command(
    app,
    "flink-autoscaler pin orders 'Source: *=4' sink=2 --reason 'the database takes no more connections'",
    codes=_CODES,
    short_help="Keep vertices at a parallelism.",
)
def pin(
    by: Orderer,
    *,
    vertices: Annotated[
        list[str],
        typer.Argument(metavar="VERTEX=P...", help="Name or id of a vertex and its parallelism; * and ? match."),
    ],
    reason: ReasonOption,
    is_forced: Annotated[
        bool, typer.Option("--force", help="Pin what the job has no vertex, bounds, quota or slots for, too.")
    ] = False,
    is_new: NewOption = False,
) -> int:
    """Keep vertices of a job at a parallelism, from the next pass on, also while a person has paused it.

    The others are scaled as before. Of pins that fit the same vertex the latest counts. A pin that the job could not
    have in its latest recorded pass is refused.
    """
    from flink_autoscaler.standalone.cli.orders.service import pinned

    return by.orders("pin", reason, is_new=is_new, vertices=dict(map(pinned, vertices)), is_forced=is_forced)


@command(
    app,
    "flink-autoscaler unpin orders",
    "flink-autoscaler unpin orders sink",
    codes=_CODES,
    short_help="Scale vertices by load again.",
)
def unpin(
    by: Orderer,
    *,
    vertices: Annotated[
        list[str] | None,
        typer.Argument(metavar="[VERTEX...]", help="As they were pinned, without the parallelism; all unless given."),
    ] = None,
    reason: OptionalReasonOption = None,
) -> int:
    """Scale vertices by load again. They stay as they are until that decides something else."""
    return by.orders("unpin", reason, vertices=dict.fromkeys(vertices or (), 1))


@command(
    app,
    "flink-autoscaler rollback orders --reason 'latency doubled at 14:05'",
    codes=_CODES,
    short_help="Undo the last rescale of a job.",
)
def rollback(by: Orderer, *, reason: ReasonOption) -> int:
    """Go back to the parallelism before the last rescale, in the next pass, also where the job fails.

    Scaling is paused after that until the job is resumed.
    """
    return by.orders("rollback", reason)


@command(
    app,
    "flink-autoscaler reset orders --reason 'other hardware since today'",
    "flink-autoscaler reset orders --reason 'same' --yes",
    codes=_CODES,
    short_help="Forget what was learned about a job.",
)
def reset(
    by: Orderer,
    *,
    reason: ReasonOption,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this only show what would be forgotten.")] = False,
) -> int:
    """Forget what was learned and decided about a job, in the next pass.

    The job keeps its parallelism. Metrics are collected anew, so that nothing is decided for a metric window. Pauses,
    pins and dry runs that were ordered stay in force.
    """
    return by.orders("reset", reason, is_sure=yes)


@command(
    app,
    "flink-autoscaler dry-run orders on --reason 'new options'",
    "flink-autoscaler dry-run orders off",
    codes=_CODES,
    short_help="Decide for a job but change nothing.",
    name="dry-run",
)
def dry_run(
    by: Orderer,
    *,
    switch: Annotated[str, typer.Argument(metavar="on|off", help="Whether to only decide and report.")],
    reason: OptionalReasonOption = None,
    is_new: NewOption = False,
) -> int:
    """Decide and report for a job but change nothing, from the next pass on."""
    order = {"on": "dry-run", "off": "live"}.get(switch.lower())
    if order is None:
        raise mistake(f"dry-run '{switch}': expected on or off")
    return by.orders(order, reason, is_new=is_new)


@command(
    app,
    "flink-autoscaler orders --config autoscaler.yaml",
    "flink-autoscaler orders 'prod/*' --json",
    short_help="Show what is ordered.",
)
def orders(
    *,
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="Only jobs with this key, name or id; * and ? match.")
    ] = None,
    given: GivenSettings,
    as_json: JsonOption = False,
    url: UrlOption = None,
) -> int:
    """Show what is ordered now, by whom and since when."""
    from flink_autoscaler.standalone.cli.orders.view import show_orders

    show_orders(given, job, url, as_json=as_json)
    return 0
