"""Where orders are given: who signs them, which jobs they mean, and the book or the daemon that takes them."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.job import Endpoint, JobKey, JobStatus, name_key
from flink_autoscaler.core.model.orders import MOST_PARALLELISM
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Vector
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler
from flink_autoscaler.core.ports.order_book import Ordered
from flink_autoscaler.core.supervise import order_book
from flink_autoscaler.core.supervise.in_force import OrdersInForce
from flink_autoscaler.core.supervise.order_book import NEEDS_REASON, OperatorCommand, time_text
from flink_autoscaler.standalone.cli.command import GivenSettings
from flink_autoscaler.standalone.cli.named_jobs import chosen_jobs, job_of_daemon, new_job
from flink_autoscaler.standalone.cli.output import one_line, print_error, write_out
from flink_autoscaler.standalone.daemon.event_handlers import EventHandlers
from flink_autoscaler.standalone.daemon.plugins import PluginGroup, make_plugin
from flink_autoscaler.standalone.fetchers.job_keys import printable
from flink_autoscaler.standalone.ha.databases import open_database
from flink_autoscaler.standalone.records.codec import decode
from flink_autoscaler.standalone.records.explain import seen_job, wanted_of
from flink_autoscaler.standalone.settings.schema.settings import JDBC, LOGGING, JobKeyMode, Settings
from flink_autoscaler.standalone.web.client import tell
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.known_jobs import KnownJob, known_jobs, supervision_of, supervisions_of
from flink_autoscaler.stores.sql.orders import SqlOrderBook
from flink_autoscaler.stores.sql.records import SqlRecordStore
from flink_autoscaler.stores.sql.schema import require_current
from flink_autoscaler.stores.sql.state.store import SqlStateStore

if TYPE_CHECKING:
    from flink_autoscaler.standalone.cli.orders.commands import Orderer

_LONGEST_REASON: Final = 500
_LONGEST_NAME: Final = 100
_NO_DATABASE: Final = (
    "orders are kept in a database, where every daemon finds them: set autoscaler.standalone.state-store.type to JDBC"
    " and autoscaler.standalone.jdbc.url to the database of the daemon; without both it is the daemon's own file, which"
    " is not there: give the STATE_DIRECTORY and the user of the daemon"
)


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
        self._is_event_in_database = JDBC in settings.event_handler_names
        self._book = SqlOrderBook(database, keeps_events=self._is_event_in_database)
        self._records = SqlRecordStore(database)

    def jobs(self, by: Orderer, *, is_new: bool) -> tuple[JobKey, ...]:
        """Return the jobs that are meant. May raise :class:`UnclearJobError`."""
        if is_new:
            names_cluster = self._settings.job_key is not JobKeyMode.JOB_ID
            return (new_job(by.job, self._clusters, names_cluster=names_cluster),)
        return chosen_jobs(self._known(), by.job, takes_all=by.takes_all, is_order=True)

    def _known(self) -> tuple[KnownJob, ...]:
        return known_jobs(self._database, writer=self._settings.ha.name, clusters=self._clusters)

    def remembered(self, job_key: JobKey) -> str:
        """Return what the daemon remembers about a job, in a few words."""
        return remembered(SqlStateStore(self._database).load(job_key))

    def change(self, job_key: JobKey, wanted: OperatorCommand, who: str, reason: str) -> Ordered:
        """Give an order for a job, signed with the instant of the database."""
        supervision, seen = supervision_of(self._database, job_key), seen_job(self._records, job_key)
        return order_book.give_order(self._book, job_key, wanted, (who, reason), supervision, seen)

    def in_force(self, job: str | None) -> list[OrdersInForce]:
        """Return what is ordered now, for all jobs or those that a text means; some may have nothing in force."""
        chosen = None if job is None else chosen_jobs(self._known(), job, takes_all=True)
        with self._database.transaction(read_only=True) as connection:
            now_ms = self._database.now_ms(connection)
        found = [self._book.orders(cluster) for cluster in self._clusters]
        ordered = {job_key: orders for each in found for job_key, orders in sorted(each.items())}
        supervisions = supervisions_of(self._database, writer=self._settings.ha.name, clusters=self._clusters)
        standing = []
        for job_key in dict.fromkeys((*supervisions, *ordered)):
            if chosen is None or job_key in chosen:
                orders = order_book.orders_for(job_key, {name_key(job_key)} - {job_key}, ordered, now_ms)
                seen = seen_job(self._records, job_key) if orders.pins else None
                vertices = None if seen is None else tuple(seen.vertices)
                known = supervisions.get(job_key, NO_SUPERVISION)
                standing.append(OrdersInForce(job_key, orders, known, now_ms, vertices))
        return standing

    def wanted(self, job_keys: Collection[JobKey]) -> dict[JobKey, Vector]:
        """Return what is wanted of the vertices of jobs: by load, as the last recorded pass saw it, and by orders."""
        supervisions = supervisions_of(self._database, writer=self._settings.ha.name, clusters=self._clusters)
        wanted = {}
        for job_key in job_keys:
            newest = self._records.latest(job_key)
            outcome = None
            with suppress(StoreError):  # a record that cannot be read tells nothing
                outcome = None if newest is None else decode(newest.text).outcome
            wanted[job_key] = wanted_of(supervisions.get(job_key, NO_SUPERVISION), outcome)
        return wanted

    @contextmanager
    def event_handler(self) -> Iterator[AutoScalerEventHandler | None]:
        """Give what events are handed to; None where the book writes them itself and nobody else is told."""
        written = {JDBC, LOGGING} if self._is_event_in_database else set()
        names = [name for name in self._settings.event_handler_names if name not in written]
        offered = {"settings": self._settings}
        with ExitStack() as parts:
            handlers = [make_plugin(PluginGroup.EVENT_HANDLERS, name, offered) for name in names]
            for handler in handlers:
                parts.callback(handler.close)
            yield EventHandlers(handlers) if handlers else None


def give(by: Orderer, wanted: OperatorCommand, reason: str, *, is_new: bool, is_sure: bool) -> int:
    """Give an order for the jobs that are meant; return the exit code.

    Raises:
        ConfigError: The name or the reason cannot be kept, or it was not confirmed.
        UnclearJobError: It is not clear which jobs are meant.
    """
    who = _kept("--as", _login() if by.who is None else by.who, _LONGEST_NAME)
    reason = _kept("--reason", reason, _LONGEST_REASON)
    if wanted.order in NEEDS_REASON and not reason:
        raise ConfigError("--reason is empty: say why, for those who come after you")
    if not who:
        raise ConfigError("--as is empty: say who you are")
    if by.url is not None:
        if not is_sure:
            raise ConfigError("nothing was changed: add --yes to have everything that was learned forgotten")
        return _send(by, by.url, wanted, reason, is_new=is_new)
    with opened_service(by.given) as service:
        job_keys = service.jobs(by, is_new=is_new)
        for job_key in job_keys if wanted.order == "reset" else ():
            _say(job_key, f"A reset forgets: {service.remembered(job_key) or 'nothing'}", is_refused=False)
        if not is_sure:
            raise ConfigError("nothing was changed: add --yes to have this forgotten")
        with service.event_handler() as handler:
            codes = [_change(service, handler, job_key, wanted, who, reason) for job_key in job_keys]
    return max(codes, default=0)


def _change(
    service: OrderService,
    handler: AutoScalerEventHandler | None,
    job_key: JobKey,
    wanted: OperatorCommand,
    who: str,
    reason: str,
) -> int:
    ordered = service.change(job_key, wanted, who, reason)
    if handler is not None and ordered.event is not None:
        # Of the job nothing but its key is known.
        cluster, _, name = job_key.partition("/")
        context = JobAutoScalerContext(job_key, None, JobStatus.UNKNOWN, {}, Endpoint(""), name, cluster)
        handler.handle_event(context, ordered.event)
    return _say(job_key, ordered.text, is_refused=ordered.is_refused)


def _send(by: Orderer, url: str, wanted: OperatorCommand, reason: str, *, is_new: bool) -> int:
    """Send an order to a running daemon, which signs it with who it takes us for; return the exit code."""
    if by.takes_all or is_new or by.who is not None:
        raise ConfigError("--all, --new and --as are for the database; with --url name one job, and the token says who")
    job_key = job_of_daemon(url, by.job)
    body = {
        "job_key": job_key,
        "order": wanted.order,
        "reason": reason,
        "direction": wanted.direction.value,
        "seconds": None if wanted.lasts_ms is None else wanted.lasts_ms / 1000,
        "vertices": dict(wanted.vertices),
        "force": wanted.is_forced,
    }
    ordered = tell(url, "/api/v1/orders", body)
    return _say(job_key, ordered["text"], is_refused=ordered["is_refused"])


def _say(job_key: JobKey, text: str, *, is_refused: bool) -> int:
    """Say what came of an order; return the exit code."""
    if is_refused:
        print_error(f"{one_line(job_key)}: {text}")
        return 1
    write_out(f"{one_line(job_key)}: {one_line(text)}\n")
    return 0


@contextmanager
def opened_service(given: GivenSettings) -> Iterator[OrderService]:
    """Open the book of the settings.

    Raises:
        ConfigError: There is none, or its schema is not the one of this version.
    """
    with service_if_any(given) as service:
        if service is None:
            raise ConfigError(_NO_DATABASE)
        yield service


@contextmanager
def service_if_any(given: GivenSettings) -> Iterator[OrderService | None]:
    """Open the book of the settings; None where there is no database."""
    prepared = given.prepare_stored()
    if prepared.standalone.state_store != JDBC or prepared.standalone.jdbc_url is None:
        yield None
        return
    with closing(open_database(prepared)) as database:
        require_current(database, upgrades_at_start=False)
        yield OrderService(prepared, database)


def lasting(text: str) -> int:
    """Return the milliseconds that ``--for`` means.

    Raises:
        ConfigError: It is no duration with a unit.
    """
    stripped = text.strip()
    try:
        milliseconds = syntax.parse_time(stripped).ms
    except ValueError:
        milliseconds = 0
    if milliseconds <= 0 or stripped.isdigit():
        raise ConfigError(f"--for '{text}': expected a duration such as 30min, 2h or 1d")
    return milliseconds


def pinned(text: str) -> tuple[str, int]:
    """Return pattern and parallelism of ``VERTEX=PARALLELISM``.

    Raises:
        ConfigError: It is something else.
    """
    pattern, equals, number = text.rpartition("=")
    try:
        parallelism = syntax.parse_int(number.strip())
    except ValueError:
        parallelism = 0
    if not (pattern.strip() and equals) or not 1 <= parallelism <= MOST_PARALLELISM:
        raise ConfigError(f"'{text}': expected VERTEX=PARALLELISM, such as 'Source: *=4', from 1 to {MOST_PARALLELISM}")
    return printable(pattern.strip()), parallelism


def remembered(state: JobState) -> str:
    """Return what is remembered about a job, in a few words; empty when nothing is."""
    supervision = state.supervision
    rescales = len(supervision.past) + (supervision.current is not None)
    counts = [
        (len(state.samples), "sample of metrics", "samples of metrics"),
        (len(state.overrides), "decided parallelism", "decided parallelisms"),
        (sum(map(len, state.history.values())), "entry of scaling history", "entries of scaling history"),
        (len(state.tracking), "measured restart", "measured restarts"),
        (len(state.delayed), "waiting scale-down", "waiting scale-downs"),
        (rescales, "rescale", "rescales"),
        (len(supervision.quarantine), "quarantined vertex", "quarantined vertices"),
    ]
    parts = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
    if supervision.pause is not None:
        parts.append(f"the pause since {time_text(supervision.pause.since_ms)} ({supervision.pause.text})")
    if supervision.edit is not None:
        parts.append("the respect for somebody's change of requirements")
    return ", ".join(parts)


def _kept(option: str, text: str, longest: int) -> str:
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
