"""Where orders are given: whose they are, which jobs they mean, and the book that keeps them."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

from flink_autoscaler.core.errors import AutoscalerError, ConfigError, StoreError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.job import Endpoint, JobKey, JobStatus
from flink_autoscaler.core.model.orders import Orders, Signed
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.core.model.vertex_patterns import Named
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.option import nearest
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler
from flink_autoscaler.core.ports.order_book import Ordered
from flink_autoscaler.core.supervise import order_book
from flink_autoscaler.standalone.cli.command import GivenSettings
from flink_autoscaler.standalone.cli.order_view import OrdersInForce, remembered
from flink_autoscaler.standalone.cli.orders import OrderedBy
from flink_autoscaler.standalone.cli.output import first_of, print_error
from flink_autoscaler.standalone.daemon.event_handlers import EventHandlers
from flink_autoscaler.standalone.daemon.plugins import PluginGroup, make_plugin
from flink_autoscaler.standalone.daemon.storage import JDBC
from flink_autoscaler.standalone.fetchers.job_keys import KEY_LIMIT, printable
from flink_autoscaler.standalone.ha.databases import open_database
from flink_autoscaler.standalone.records.codec import decode
from flink_autoscaler.standalone.settings.schema.settings import LOGGING, JobKeyMode, Settings
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.known_jobs import KnownJob, known_jobs, supervision_of
from flink_autoscaler.stores.sql.orders import SqlOrderBook
from flink_autoscaler.stores.sql.records import SqlRecordStore
from flink_autoscaler.stores.sql.schema import require_current
from flink_autoscaler.stores.sql.state.store import SqlStateStore

_LONGEST_REASON: Final = 500
_LONGEST_NAME: Final = 100
_HIGHEST_PARALLELISM: Final = 1 << 15
_LISTED: Final = 20
"""Jobs that are named when a text fits several."""
_NEAREST: Final = 3
_NO_DATABASE: Final = (
    "orders are kept in a database, where every daemon finds them: set autoscaler.standalone.state-store.type to JDBC"
    " and autoscaler.standalone.jdbc.url to the database of the daemon; without both it is the daemon's own file, which"
    " is not there: give the STATE_DIRECTORY and the user of the daemon"
)

Act = Callable[[Orders, Signed, Supervision], Ordered]
"""What an order makes of those of a job, given who signs it and what is remembered about the job's rescales."""

Sign = Callable[[int], Signed]
"""Signs an order with an instant, epoch milliseconds."""


class UnclearJobError(AutoscalerError):
    """It is not clear which job is meant. One line per job that may be."""


@dataclass(frozen=True, slots=True)
class OrderArguments:
    """Whom an order is about and who gives it, as text from the command line.

    Attributes:
        given: Where the settings of the daemon come from.
        by: Who gives it; None takes the login name and the host.
        job: Key, name, id, pattern or end of a key.
        reason: None where none is needed.
        is_new: Whether ``job`` is the key of a job that the daemon has not seen yet.
        needs_reason: Whether the reason may not be empty.
    """

    given: GivenSettings
    by: OrderedBy
    job: str
    reason: str | None
    is_new: bool = False
    needs_reason: bool = False

    def signing(self) -> Sign:
        """Return what signs an order.

        Raises:
            ConfigError: The name or the reason cannot be kept.
        """
        who = _kept("--as", self.by.who if self.by.who is not None else _login(), _LONGEST_NAME)
        reason = _kept("--reason", self.reason or "", _LONGEST_REASON)
        if self.needs_reason and not reason:
            raise ConfigError("--reason is empty: say why, for those who come after you")
        if not who:
            raise ConfigError("--as is empty: say who you are")
        return partial(Signed, who, reason)


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

    def vertices(self, job_key: JobKey) -> tuple[Named, ...] | None:
        """Return the vertices of a job in its latest recorded pass; None where that does not tell."""
        newest = SqlRecordStore(self._database).latest(job_key)
        if newest is None:
            return None
        try:
            outcome = decode(newest.text).outcome
        except StoreError:
            return None
        reading = None if outcome.inputs is None else outcome.inputs.reading
        if outcome.topology is not None:
            return tuple(outcome.topology.vertices.values())
        return None if reading is None or reading.details is None else tuple(reading.details.vertices)

    def orders(self) -> Mapping[JobKey, Orders]:
        """Return the orders for the jobs of all clusters."""
        found = [self._book.orders(cluster) for cluster in self._clusters]
        return {job_key: orders for each in found for job_key, orders in sorted(each.items())}

    def change(self, job_key: JobKey, sign: Sign, act: Act) -> Ordered:
        """Give an order for a job, signed with the instant of the database."""
        supervision = self.supervision(job_key)
        return self._book.change(job_key, lambda orders, now_ms: act(orders, sign(now_ms), supervision))

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


def give(asked: OrderArguments, act: Act) -> int:
    """Give an order for the jobs that are meant; return the exit code."""
    sign = asked.signing()
    with _opened(asked.given) as service:
        return _change(service, service.jobs(asked), sign, act)


def give_reset(asked: OrderArguments, *, is_confirmed: bool) -> int:
    """Have everything forgotten about the jobs that are meant, once that is confirmed; return the exit code."""
    sign = asked.signing()
    with _opened(asked.given) as service:
        job_keys = service.jobs(asked)
        for job_key in job_keys:
            _say(job_key, f"A reset forgets: {service.remembered(job_key) or 'nothing'}")
        if not is_confirmed:
            raise ConfigError("nothing was changed: add --yes to have this forgotten")
        return _change(service, job_keys, sign, order_book.reset)


def orders_in_force(given: GivenSettings, job: str | None) -> list[OrdersInForce]:
    """Return what is ordered now, for all jobs or those that a text means; some may have nothing in force."""
    with _opened(given) as service:
        chosen = None if job is None else chosen_jobs(service.known(), job, takes_all=True)
        now_ms = service.now_ms()
        return [
            OrdersInForce(
                job_key,
                orders,
                service.supervision(job_key),
                now_ms,
                service.vertices(job_key) if orders.pins else None,
            )
            for job_key, orders in service.orders().items()
            if chosen is None or job_key in chosen
        ]


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
                print_error(f"{printable(job_key)}: {ordered.text}")
            else:
                _say(job_key, ordered.text)
            if handler is not None and ordered.event is not None:
                handler.handle_event(_context(job_key), ordered.event)
            is_refused |= ordered.is_refused
    return 1 if is_refused else 0


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
    if not (pattern.strip() and equals) or not 1 <= parallelism <= _HIGHEST_PARALLELISM:
        raise ConfigError(f"'{text}': expected VERTEX=PARALLELISM, such as 'Source: *=4', from 1 to 32768")
    return printable(pattern.strip()), parallelism


def _context(job_key: JobKey) -> JobAutoScalerContext:
    """Make the context of a job of which nothing but its key is known."""
    cluster, _, name = job_key.partition("/")
    return JobAutoScalerContext(job_key, None, JobStatus.UNKNOWN, {}, Endpoint(""), name, cluster)


def _say(job_key: JobKey, text: str) -> None:
    sys.stdout.write(f"{printable(job_key)}: {printable(text)}\n")


def chosen_jobs(known: Sequence[KnownJob], text: str, *, takes_all: bool) -> tuple[JobKey, ...]:
    """Return the jobs that a text means: by key, else by name or job id, else by pattern, else by the end of the key.

    Args:
        known: The jobs there are.
        text: As given; in a pattern ``*`` and ``?`` stand for any characters.
        takes_all: Whether it may mean several.

    Raises:
        UnclearJobError: It means none, or several.
    """
    for fits in _WAYS:
        found = tuple(job.job_key for job in known if fits(job, text))
        if len(found) > 1 and not takes_all:
            raise UnclearJobError(_several(text, found))
        if found:
            return found
    raise UnclearJobError(_unknown(text, known))


def new_job(text: str, clusters: Collection[str], *, names_cluster: bool) -> JobKey:
    """Return the key of a job that the daemon has not seen yet.

    Args:
        text: The key, to the letter.
        clusters: Names of the clusters in the configuration.
        names_cluster: Whether keys begin with the name of the cluster.

    Raises:
        UnclearJobError: No job of these clusters can have this key.
    """
    if not text or len(text) > KEY_LIMIT or printable(text) != text:
        raise UnclearJobError(f"'{printable(text[:40])}' is no job key: 1 to {KEY_LIMIT} printable characters")
    cluster, _, name = text.partition("/")
    if names_cluster and (cluster not in clusters or not name):
        known = f"{', '.join(clusters)}{nearest(cluster, clusters)}"
        raise UnclearJobError(f"'{text}' is no job key: <cluster>/<job name>, with one of the clusters {known}")
    return text


def _fits_name(job: KnownJob, text: str) -> bool:
    return text in (job.name, job.job_id)


def _fits_pattern(job: KnownJob, pattern: str) -> bool:
    return any(fnmatchcase(each, pattern) for each in (job.job_key, job.name, job.job_id) if each is not None)


_WAYS: Final[tuple[Callable[[KnownJob, str], bool], ...]] = (
    lambda job, text: job.job_key == text,
    _fits_name,
    _fits_pattern,
    lambda job, text: bool(text) and job.job_key.endswith(text),
)


def _several(text: str, found: Sequence[JobKey]) -> str:
    return "\n".join((f"'{text}' fits {len(found)} jobs; name one, or add --all:", *_indented(found)))


def _unknown(text: str, known: Sequence[KnownJob]) -> str:
    hint = "--new takes it for the exact key of a job that the daemon has not seen yet"
    if not known:
        return f"no job is known yet: the daemon writes down a job that it scales in its first pass; {hint}"
    by_text = {job.name: job.job_key for job in known} | {job.job_key: job.job_key for job in known}
    close = dict.fromkeys(by_text[each] for each in get_close_matches(text, by_text, n=_NEAREST, cutoff=0.4))
    if not close:
        return f"no job '{text}' is known; flink-autoscaler jobs lists what runs; {hint}"
    return "\n".join((f"no job '{text}' is known; {hint}. The nearest:", *_indented(close)))


def _indented(job_keys: Iterable[JobKey]) -> list[str]:
    return [f"  {line}" for line in first_of(list(job_keys), _LISTED)]
