"""Where orders are given: whose they are, which jobs they mean, and the book that keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Final

from flink_autoscaler.core.decide.limits.pins import PinnedJob
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint, JobKey, JobStatus, cluster_of, name_key
from flink_autoscaler.core.model.orders import Orders, Signed
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Supervision
from flink_autoscaler.core.model.vertex_patterns import Named
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler
from flink_autoscaler.core.ports.order_book import Ordered
from flink_autoscaler.core.supervise import order_book
from flink_autoscaler.core.supervise.in_force import OrdersInForce
from flink_autoscaler.core.supervise.left_alone import LeftAlone
from flink_autoscaler.standalone.cli.command import GivenSettings
from flink_autoscaler.standalone.cli.orders.arguments import OrderArguments, Sign
from flink_autoscaler.standalone.cli.orders.named_jobs import chosen_jobs, new_job
from flink_autoscaler.standalone.cli.orders.view import remembered
from flink_autoscaler.standalone.cli.output import one_line, print_error, write_out
from flink_autoscaler.standalone.daemon.event_handlers import EventHandlers
from flink_autoscaler.standalone.daemon.plugins import PluginGroup, make_plugin
from flink_autoscaler.standalone.ha.databases import open_database
from flink_autoscaler.standalone.records.seen import seen_job
from flink_autoscaler.standalone.settings.schema.settings import JDBC, LOGGING, JobKeyMode, Settings
from flink_autoscaler.standalone.web.client import key_of, tell
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.known_jobs import KnownJob, known_jobs, supervision_of, supervisions_of
from flink_autoscaler.stores.sql.orders import SqlOrderBook
from flink_autoscaler.stores.sql.records import SqlRecordStore
from flink_autoscaler.stores.sql.schema import require_current
from flink_autoscaler.stores.sql.state.store import SqlStateStore

_NO_DATABASE: Final = (
    "orders are kept in a database, where every daemon finds them: set autoscaler.standalone.state-store.type to JDBC"
    " and autoscaler.standalone.jdbc.url to the database of the daemon; without both it is the daemon's own file, which"
    " is not there: give the STATE_DIRECTORY and the user of the daemon"
)

Act = Callable[[Orders, Signed, Supervision], Ordered]
"""What an order makes of those of a job, given who signs it and what is remembered about the job's rescales."""


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

    def jobs(self, asked: OrderArguments) -> tuple[JobKey, ...]:
        """Return the jobs that are meant.

        Raises:
            UnclearJobError: It is not clear which.
        """
        if asked.is_new:
            names_cluster = self._settings.job_key is not JobKeyMode.JOB_ID
            return (new_job(asked.job, self._clusters, names_cluster=names_cluster),)
        return chosen_jobs(self.known(), asked.job, takes_all=asked.by.takes_all)

    def known(self) -> tuple[KnownJob, ...]:
        """Return all jobs of the clusters of the settings."""
        return known_jobs(self._database, writer=self._settings.ha.name, clusters=self._clusters)

    def remembered(self, job_key: JobKey) -> str:
        """Return what the daemon remembers about a job, in a few words."""
        return remembered(SqlStateStore(self._database).load(job_key))

    def supervision(self, job_key: JobKey) -> Supervision:
        """Return what the daemon remembers about the rescales of a job."""
        return supervision_of(self._database, job_key)

    def seen(self, job_key: JobKey) -> PinnedJob | None:
        """Return a job as its latest recorded pass saw it; None where that does not tell."""
        return seen_job(SqlRecordStore(self._database), job_key)

    def vertices(self, job_key: JobKey) -> tuple[Named, ...] | None:
        """Return the vertices of a job in its latest recorded pass; None where that does not tell."""
        seen = self.seen(job_key)
        return None if seen is None else tuple(seen.vertices)

    def orders(self) -> Mapping[JobKey, Orders]:
        """Return the orders for the jobs of all clusters."""
        found = [self._book.orders(cluster) for cluster in self._clusters]
        return {job_key: orders for each in found for job_key, orders in sorted(each.items())}

    def change(self, job_key: JobKey, sign: Sign, act: Act) -> Ordered:
        """Give an order for a job, signed with the instant of the database."""
        supervision = self.supervision(job_key)
        book = {} if name_key(job_key) == job_key else self._book.orders(cluster_of(job_key))

        def command(orders: Orders, now_ms: int) -> Ordered:
            return order_book.with_name_orders(act(orders, sign(now_ms), supervision), job_key, book, now_ms)

        return self._book.change(job_key, command)

    def supervisions(self) -> Mapping[JobKey, Supervision]:
        """Return what the daemon remembers about the rescales of all jobs."""
        return supervisions_of(self._database, writer=self._settings.ha.name, clusters=self._clusters)

    def now_ms(self) -> int:
        """Return the instant by the clock that signs orders."""
        with self._database.transaction(read_only=True) as connection:
            return self._database.now_ms(connection)

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


def give(asked: OrderArguments, act: Act, request: Mapping[str, object]) -> int:
    """Give an order for the jobs that are meant; return the exit code.

    Args:
        asked: Whom it is about.
        act: What it makes of the orders of a job.
        request: The same for the API of a daemon, but for job and reason.
    """
    sign = asked.signing()
    if asked.by.url is not None:
        return _sent(asked, request)
    with _opened(asked.given) as service:
        return _change(service, service.jobs(asked), sign, act)


def give_pin(asked: OrderArguments, wanted: Mapping[str, int], *, is_forced: bool) -> int:
    """Pin vertices of the jobs that are meant, where they can have it or a person insists; return the exit code."""
    sign = asked.signing()
    if asked.by.url is not None:
        return _sent(asked, {"order": "pin", "vertices": {**wanted}, "force": is_forced})

    def act_for(service: OrderService, job_key: JobKey) -> Act:
        job = service.seen(job_key)
        return lambda orders, signed, _: order_book.pin(orders, signed, wanted, job, is_forced=is_forced)

    with _opened(asked.given) as service:
        codes = [_change(service, (job_key,), sign, act_for(service, job_key)) for job_key in service.jobs(asked)]
    return max(codes, default=0)


def give_reset(asked: OrderArguments, *, is_confirmed: bool) -> int:
    """Have everything forgotten about the jobs that are meant, once that is confirmed; return the exit code."""
    sign = asked.signing()
    if asked.by.url is not None:
        if not is_confirmed:
            raise ConfigError("nothing was changed: add --yes to have everything that was learned forgotten")
        return _sent(asked, {"order": "reset"})
    with _opened(asked.given) as service:
        job_keys = service.jobs(asked)
        for job_key in job_keys:
            _say(job_key, f"A reset forgets: {service.remembered(job_key) or 'nothing'}")
        if not is_confirmed:
            raise ConfigError("nothing was changed: add --yes to have this forgotten")
        return _change(service, job_keys, sign, order_book.reset)


def _sent(asked: OrderArguments, request: Mapping[str, object]) -> int:
    """Send an order to a running daemon, which signs it with who it takes us for; return the exit code."""
    url = asked.by.url or ""
    if asked.by.takes_all or asked.is_new or asked.by.who is not None:
        raise ConfigError("--all, --new and --as are for the database; with --url name one job, and the token says who")
    job_key = key_of(url, asked.job)
    ordered = tell(url, "/api/v1/orders", {**request, "job_key": job_key, "reason": asked.reason or ""})
    if ordered["is_refused"]:
        print_error(f"{one_line(job_key)}: {ordered['text']}")
        return 1
    _say(job_key, ordered["text"])
    return 0


def orders_in_force(given: GivenSettings, job: str | None) -> list[OrdersInForce]:
    """Return what is ordered now, for all jobs or those that a text means; some may have nothing in force."""
    with _opened(given) as service:
        chosen = None if job is None else chosen_jobs(service.known(), job, takes_all=True)
        now_ms, ordered, supervisions = service.now_ms(), service.orders(), service.supervisions()
        return [
            OrdersInForce(
                job_key,
                orders := order_book.orders_for(job_key, {name_key(job_key)} - {job_key}, ordered, now_ms),
                supervisions.get(job_key, NO_SUPERVISION),
                now_ms,
                service.vertices(job_key) if orders.pins else None,
            )
            for job_key in dict.fromkeys((*supervisions, *ordered))
            if chosen is None or job_key in chosen
        ]


def left_alone_now(given: GivenSettings) -> Mapping[JobKey, tuple[LeftAlone, ...]]:
    """Return for what jobs are left alone, where anything is known about that: nothing without a database."""
    prepared = given.prepare_stored()
    if prepared.standalone.state_store != JDBC or prepared.standalone.jdbc_url is None:
        return {}
    return {each.job_key: each.left_alone for each in orders_in_force(given, None)}


@contextmanager
def _opened(given: GivenSettings) -> Iterator[OrderService]:
    """Open the book of the settings.

    Raises:
        ConfigError: There is none, or its schema is not the one of this version.
    """
    prepared = given.prepare_stored()
    if prepared.standalone.state_store != JDBC or prepared.standalone.jdbc_url is None:
        raise ConfigError(_NO_DATABASE)
    with closing(open_database(prepared)) as database:
        require_current(database, upgrades_at_start=False)
        yield OrderService(prepared, database)


def _change(service: OrderService, job_keys: Sequence[JobKey], sign: Sign, act: Act) -> int:
    """Give an order for some jobs, one after the other, and say what came of it; return the exit code."""
    is_refused = False
    with service.event_handler() as handler:
        for job_key in job_keys:
            ordered = service.change(job_key, sign, act)
            if ordered.is_refused:
                print_error(f"{one_line(job_key)}: {ordered.text}")
            else:
                _say(job_key, ordered.text)
            if handler is not None and ordered.event is not None:
                handler.handle_event(_context(job_key), ordered.event)
            is_refused |= ordered.is_refused
    return 1 if is_refused else 0


def _context(job_key: JobKey) -> JobAutoScalerContext:
    """Make the context of a job of which nothing but its key is known."""
    cluster, _, name = job_key.partition("/")
    return JobAutoScalerContext(job_key, None, JobStatus.UNKNOWN, {}, Endpoint(""), name, cluster)


def _say(job_key: JobKey, text: str) -> None:
    write_out(f"{one_line(job_key)}: {one_line(text)}\n")
