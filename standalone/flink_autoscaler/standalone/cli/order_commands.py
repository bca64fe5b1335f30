"""What the commands do with which people give orders to a running daemon."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.job import Endpoint, JobAutoScalerContext, JobKey, JobStatus
from flink_autoscaler.core.model.orders import Orders, PauseScope, Signed
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler
from flink_autoscaler.core.ports.order_book import Command, Ordered
from flink_autoscaler.core.supervise import order_book
from flink_autoscaler.standalone.cli import order_view, report_view
from flink_autoscaler.standalone.cli.order_targets import chosen_jobs, new_job
from flink_autoscaler.standalone.daemon.plugins import PluginGroup, make_plugin
from flink_autoscaler.standalone.daemon.storage import JDBC
from flink_autoscaler.standalone.fetchers.job_keys import printable
from flink_autoscaler.standalone.ha.databases import open_database
from flink_autoscaler.standalone.settings.preparation import prepare
from flink_autoscaler.standalone.settings.schema.settings import JobKeyMode, Settings
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.known_jobs import KnownJob, known_jobs, supervision_of
from flink_autoscaler.stores.sql.orders import SqlOrderBook
from flink_autoscaler.stores.sql.schema import require_current
from flink_autoscaler.stores.sql.state.store import SqlStateStore

_LONGEST_REASON: Final = 500
_LONGEST_NAME: Final = 100
_HIGHEST_PARALLELISM: Final = 1 << 15
_NO_DATABASE: Final = (
    "orders are kept in a database, where every daemon finds them: set autoscaler.standalone.state-store.type to JDBC"
    " and autoscaler.standalone.jdbc.url to the database of the daemon"
)

Act = Callable[[Orders, Signed, Supervision], Ordered]
"""What an order makes of those of a job, given who signs it and what is remembered about the job's rescales."""

Sign = Callable[[int], Signed]
"""Signs an order with an instant, epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class OrderArguments:
    """Whom an order is about and who gives it, as text from the command line.

    Attributes:
        job: Key, name, id, pattern or end of a key.
        who: None takes the login name and the host.
        reason: None where none is needed.
        takes_all: Whether ``job`` may mean several.
        is_new: Whether ``job`` is the key of a job that the daemon has not seen yet.
    """

    job: str
    who: str | None = None
    reason: str | None = None
    takes_all: bool = False
    is_new: bool = False


class OrderService:
    """Where orders are given: the book and the states of one database.

    Args:
        settings: Those of the daemon.
        database: That of the daemon.
    """

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._clusters = [cluster.name for cluster in settings.effective_clusters()]
        self._is_event_in_database = settings.standalone.event_handler == JDBC
        self.book = SqlOrderBook(database, keeps_events=self._is_event_in_database)

    def jobs(self, asked: OrderArguments) -> tuple[JobKey, ...]:
        """Return the jobs that are meant.

        Raises:
            UnclearJobError: It is not clear which.
        """
        if asked.is_new:
            names_cluster = self._settings.job_key is not JobKeyMode.JOB_ID
            return (new_job(asked.job, self._clusters, names_cluster=names_cluster),)
        return chosen_jobs(self.known(), asked.job, takes_all=asked.takes_all)

    def known(self) -> tuple[KnownJob, ...]:
        """Return all jobs of the clusters of the settings."""
        return known_jobs(self._database, writer=self._settings.ha.name, clusters=self._clusters)

    def state(self, job_key: JobKey) -> JobState:
        """Return what the daemon remembers about a job."""
        return SqlStateStore(self._database).load(job_key)

    def supervision(self, job_key: JobKey) -> Supervision:
        """Return what the daemon remembers about the rescales of a job."""
        return supervision_of(self._database, job_key)

    def orders(self) -> Mapping[JobKey, Orders]:
        """Return the orders for the jobs of all clusters."""
        found = [self.book.orders(cluster) for cluster in self._clusters]
        return {job_key: orders for each in found for job_key, orders in sorted(each.items())}

    def now_ms(self) -> int:
        """Return the instant by the clock that signs orders."""
        with self._database.transaction(read_only=True) as connection:
            return self._database.now_ms(connection)

    @contextmanager
    def event_handler(self) -> Iterator[AutoScalerEventHandler | None]:
        """Give what events are handed to; None where the book writes them itself."""
        if self._is_event_in_database:
            yield None
            return
        group, name = PluginGroup.EVENT_HANDLERS, self._settings.standalone.event_handler
        handler = make_plugin(group, name, {"settings": self._settings})
        with closing(handler):
            yield handler


def pause(
    file: Path | None, overrides: Sequence[str], asked: OrderArguments, *, direction: PauseScope, duration: str | None
) -> int:
    """Leave jobs as they are; return the exit code."""
    lasts_ms = None if duration is None else _milliseconds(duration)

    def act(orders: Orders, signed: Signed, _: Supervision) -> Ordered:
        return order_book.pause(orders, signed, direction=direction, lasts_ms=lasts_ms)

    return _give(file, overrides, asked, act, needs_reason=True)


def resume(file: Path | None, overrides: Sequence[str], asked: OrderArguments) -> int:
    """Go on with jobs; return the exit code."""
    return _give(file, overrides, asked, order_book.resume)


def pin(file: Path | None, overrides: Sequence[str], asked: OrderArguments, *, pins: Sequence[str]) -> int:
    """Keep vertices at a parallelism; return the exit code."""
    wanted = dict(map(_pin, pins))
    return _give(
        file, overrides, asked, lambda orders, signed, _: order_book.pin(orders, signed, wanted), needs_reason=True
    )


def unpin(file: Path | None, overrides: Sequence[str], asked: OrderArguments, *, patterns: Sequence[str]) -> int:
    """Give vertices free again; return the exit code."""
    return _give(file, overrides, asked, lambda orders, signed, _: order_book.unpin(orders, signed, patterns))


def rollback(file: Path | None, overrides: Sequence[str], asked: OrderArguments) -> int:
    """Have the last rescale undone; return the exit code."""
    return _give(file, overrides, asked, order_book.rollback, needs_reason=True)


def reset(file: Path | None, overrides: Sequence[str], asked: OrderArguments, *, is_confirmed: bool) -> int:
    """Have everything forgotten about jobs, once that is confirmed; return the exit code."""
    sign = _signing(asked, needs_reason=True)
    with _desk(file, overrides) as desk:
        job_keys = desk.jobs(asked)
        for job_key in job_keys:
            _say(job_key, f"A reset forgets: {order_view.remembered(desk.state(job_key)) or 'nothing'}")
        if not is_confirmed:
            raise ConfigError("nothing was changed: add --yes to have this forgotten")
        return _change(desk, job_keys, sign, order_book.reset)


def dry_run(file: Path | None, overrides: Sequence[str], asked: OrderArguments, *, switch: str) -> int:
    """Change nothing about jobs any more, or change things again; return the exit code."""
    if switch.lower() not in ("on", "off"):
        raise ConfigError(f"dry-run '{switch}': expected on or off")
    is_on = switch.lower() == "on"
    return _give(file, overrides, asked, lambda orders, signed, _: order_book.dry_run(orders, signed, is_on=is_on))


def show(file: Path | None, overrides: Sequence[str], job: str | None, *, as_json: bool) -> int:
    """Show what is ordered now; return the exit code."""
    with _desk(file, overrides) as desk:
        chosen = None if job is None else chosen_jobs(desk.known(), job, takes_all=True)
        now_ms = desk.now_ms()
        standing = [
            order_view.OrdersInForce(job_key, orders, desk.supervision(job_key), now_ms)
            for job_key, orders in desk.orders().items()
            if chosen is None or job_key in chosen
        ]
    if as_json:
        report_view.print_document({"orders": [order_view.document(each) for each in standing if each]})
        return 0
    table = order_view.table(standing)
    if table.row_count:
        report_view.print_table(table)
    else:
        sys.stderr.write("no orders\n")
    return 0


def _give(
    file: Path | None, overrides: Sequence[str], asked: OrderArguments, act: Act, *, needs_reason: bool = False
) -> int:
    """Give an order for the jobs that are meant; return the exit code."""
    sign = _signing(asked, needs_reason=needs_reason)
    with _desk(file, overrides) as desk:
        return _change(desk, desk.jobs(asked), sign, act)


def _change(desk: OrderService, job_keys: Sequence[JobKey], sign: Sign, act: Act) -> int:
    """Give an order for some jobs, one after the other, and say what came of it; return the exit code."""
    is_refused = False
    with desk.event_handler() as handler:
        for job_key in job_keys:
            ordered = desk.book.change(job_key, _command(sign, act, desk.supervision(job_key)))
            if ordered.is_refused:
                report_view.print_error(f"{printable(job_key)}: {ordered.text}")
            else:
                _say(job_key, ordered.text)
            if handler is not None and ordered.event is not None:
                handler.handle_event(_context(job_key), ordered.event)
            is_refused |= ordered.is_refused
    return 1 if is_refused else 0


def _command(sign: Sign, act: Act, supervision: Supervision) -> Command:
    return lambda orders, now_ms: act(orders, sign(now_ms), supervision)


@contextmanager
def _desk(file: Path | None, overrides: Sequence[str]) -> Iterator[OrderService]:
    """Open the book of the settings.

    Raises:
        ConfigError: There is none, or its schema is not the one of this version.
    """
    settings = prepare(file, overrides)
    if settings.standalone.state_store != JDBC or settings.standalone.jdbc_url is None:
        raise ConfigError(_NO_DATABASE)
    with ExitStack() as parts:
        database = parts.enter_context(closing(open_database(settings)))
        require_current(database, upgrades_at_start=False)
        yield OrderService(settings, database)


def _signing(asked: OrderArguments, *, needs_reason: bool = False) -> Sign:
    """Return what signs an order.

    Raises:
        ConfigError: The name or the reason cannot be kept.
    """
    who = _text("--as", asked.who if asked.who is not None else _login(), _LONGEST_NAME)
    reason = _text("--reason", asked.reason or "", _LONGEST_REASON)
    if needs_reason and not reason:
        raise ConfigError("--reason is empty: say why, for those who come after you")
    if not who:
        raise ConfigError("--as is empty: say who you are")
    return lambda now_ms: Signed(who, reason, now_ms)


def _text(option: str, text: str, longest: int) -> str:
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


def _milliseconds(text: str) -> int:
    stripped = text.strip()
    try:
        milliseconds = syntax.parse_duration(stripped).ms
    except ValueError:
        milliseconds = 0
    if milliseconds <= 0 or stripped.isdigit():
        raise ConfigError(f"--for '{text}': expected a duration such as 30min, 2h or 1d")
    return milliseconds


def _pin(text: str) -> tuple[str, int]:
    pattern, equals, number = text.rpartition("=")
    try:
        parallelism = syntax.parse_int(number.strip())
    except ValueError:
        parallelism = 0
    if not (pattern.strip() and equals) or not 1 <= parallelism <= _HIGHEST_PARALLELISM:
        raise ConfigError(f"'{text}': expected VERTEX=PARALLELISM, such as 'Source: *=4', from 1 to 32768")
    return printable(pattern.strip()), parallelism


def _context(job_key: JobKey) -> JobAutoScalerContext:
    """Make the context of a job of which nothing but its key is known."""
    cluster, _, name = job_key.partition("/")
    return JobAutoScalerContext(job_key, None, JobStatus.UNKNOWN, {}, Endpoint(""), name, cluster)


def _say(job_key: JobKey, text: str) -> None:
    sys.stdout.write(f"{printable(job_key)}: {printable(text)}\n")
