"""Operator commands without a daemon: gives and reads them in the book and the states of one database."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.model.job import Endpoint, JobKey, JobStatus, name_key
from flink_autoscaler.core.model.orders import AuditStamp
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Vector
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.rescale import operator_commands
from flink_autoscaler.core.rescale.active_orders import ActiveOrders
from flink_autoscaler.core.rescale.operator_commands import OperatorCommand, time_text
from flink_autoscaler.core.rescale.suspension import Suspension
from flink_autoscaler.standalone.daemon.event_handlers import EventHandlers
from flink_autoscaler.standalone.ha.databases import open_database
from flink_autoscaler.standalone.operator_commands.named_jobs import new_job_key, resolve_jobs
from flink_autoscaler.standalone.records.codec import decode, desired_parallelism_of, latest_snapshot
from flink_autoscaler.standalone.settings.plugins import PluginGroup, make_plugin
from flink_autoscaler.standalone.settings.schema.settings import JDBC, LOGGING, JobKeyMode, Settings
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.known_jobs import KnownJob, known_jobs, supervision_of, supervisions_of
from flink_autoscaler.stores.sql.orders import SqlOrderStore
from flink_autoscaler.stores.sql.records import SqlRecordStore
from flink_autoscaler.stores.sql.schema import require_current
from flink_autoscaler.stores.sql.state.store import SqlStateStore

_NO_DATABASE: Final = (
    "orders are kept in a database, where every daemon finds them: set autoscaler.standalone.state-store.type to JDBC"
    " and autoscaler.standalone.jdbc.url to the database of the daemon; without both it is the daemon's own file, which"
    " is not there: give the STATE_DIRECTORY and the user of the daemon"
)


class CommandService:
    """Gives operator commands: the book and the states of one database.

    Args:
        settings: Those of the daemon.
        database: That of the daemon.
    """

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._clusters = [cluster.name for cluster in settings.effective_clusters()]
        self._is_event_in_database = JDBC in settings.event_handler_names
        self._book = SqlOrderStore(database, keeps_events=self._is_event_in_database)
        self._records = SqlRecordStore(database)

    def resolve_jobs(self, text: str, *, takes_all: bool, is_new: bool) -> tuple[JobKey, ...]:
        """Return the jobs that are meant. May raise :class:`AmbiguousJobError`."""
        if is_new:
            names_cluster = self._settings.job_key is not JobKeyMode.JOB_ID
            return (new_job_key(text, self._clusters, names_cluster=names_cluster),)
        return resolve_jobs(self._known_jobs(), text, takes_all=takes_all, is_order=True)

    def _known_jobs(self) -> tuple[KnownJob, ...]:
        return known_jobs(self._database, writer=self._settings.ha.name, clusters=self._clusters)

    def describe_memory(self, job_key: JobKey) -> str:
        """Return what the daemon remembers about a job, in a few words."""
        state = SqlStateStore(self._database).load(job_key)
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
        return ", ".join(parts) or "nothing"

    def submit(
        self, job_keys: Iterable[JobKey], command: OperatorCommand, who: str, reason: str
    ) -> Iterator[tuple[JobKey, str, bool]]:
        """Give an order for jobs, signed with the instant of the database.

        Yields:
            What came of each, and whether it was refused.
        """
        written = {JDBC, LOGGING} if self._is_event_in_database else set()
        names = [name for name in self._settings.event_handler_names if name not in written]
        with ExitStack() as parts:
            handlers = [make_plugin(PluginGroup.EVENT_HANDLERS, name, {"settings": self._settings}) for name in names]
            for handler in handlers:
                parts.callback(handler.close)
            for job_key in job_keys:
                supervision, seen = supervision_of(self._database, job_key), latest_snapshot(self._records, job_key)
                ordered = operator_commands.apply_command(
                    self._book, job_key, command, (who, reason), supervision, seen
                )
                if handlers and ordered.event is not None:
                    # Of the job nothing but its key is known.
                    cluster, _, name = job_key.partition("/")
                    context = JobAutoScalerContext(job_key, None, JobStatus.UNKNOWN, {}, Endpoint(""), name, cluster)
                    EventHandlers(handlers).handle_event(context, ordered.event)
                yield job_key, ordered.text, ordered.is_refused

    def list_commands(self, job: str | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return what is ordered now, for JSON and for people; for all jobs or those that a text means."""
        standing = [each for each in self.active_commands(job) if each]
        return list(map(commands_document, standing)), list(command_rows(standing))

    def active_commands(self, job: str | None) -> list[ActiveOrders]:
        """Return what is ordered now, for all jobs or those that a text means; some may have nothing in force."""
        chosen = None if job is None else resolve_jobs(self._known_jobs(), job, takes_all=True)
        with self._database.transaction(read_only=True) as connection:
            now_ms = self._database.now_ms(connection)
        found = [self._book.orders(cluster) for cluster in self._clusters]
        ordered = {job_key: orders for each in found for job_key, orders in sorted(each.items())}
        supervisions = supervisions_of(self._database, writer=self._settings.ha.name, clusters=self._clusters)
        standing = []
        for job_key in dict.fromkeys((*supervisions, *ordered)):
            if chosen is None or job_key in chosen:
                orders = operator_commands.orders_for(job_key, {name_key(job_key)} - {job_key}, ordered, now_ms)
                seen = latest_snapshot(self._records, job_key) if orders.pins else None
                vertices = None if seen is None else tuple(seen.vertices)
                known = supervisions.get(job_key, NO_SUPERVISION)
                standing.append(ActiveOrders(job_key, orders, known, now_ms, vertices))
        return standing

    def desired_parallelism(self, job_keys: Collection[JobKey]) -> dict[JobKey, Vector]:
        """Return what is wanted of the vertices of jobs: by load, as the last recorded pass saw it, and by orders."""
        supervisions = supervisions_of(self._database, writer=self._settings.ha.name, clusters=self._clusters)
        wanted = {}
        for job_key in job_keys:
            newest = self._records.latest(job_key)
            outcome = None
            with suppress(StoreError):  # a record that cannot be read tells nothing
                outcome = None if newest is None else decode(newest.text).outcome
            wanted[job_key] = desired_parallelism_of(supervisions.get(job_key, NO_SUPERVISION), outcome)
        return wanted


@contextmanager
def open_service(settings: Settings) -> Iterator[CommandService]:
    """Open the book of the settings.

    Raises:
        ConfigError: There is none, or its schema is not the one of this version.
    """
    with open_service_if_any(settings) as service:
        if service is None:
            raise ConfigError(_NO_DATABASE)
        yield service


@contextmanager
def open_service_if_any(settings: Settings) -> Iterator[CommandService | None]:
    """Open the book of the settings; None where there is no database."""
    if settings.standalone.state_store != JDBC or settings.standalone.jdbc_url is None:
        yield None
        return
    with closing(open_database(settings)) as database:
        require_current(database, upgrades_at_start=False)
        yield CommandService(settings, database)


def commands_document(standing: ActiveOrders) -> dict[str, Any]:
    """Return what is ordered for a job, for JSON."""
    pause = standing.pause
    return {
        "job_key": standing.job_key,
        "pause": None
        if pause is None
        else {
            "direction": pause.direction.value,
            "until": _format_instant(pause.until_ms),
            **_stamp_fields(pause.signed),
        },
        "pins": [
            {
                "vertex": pin.pattern,
                "parallelism": pin.parallelism,
                "fits_a_vertex": None if standing.vertices is None else not standing.is_idle(pin),
                **_stamp_fields(pin.signed),
            }
            for pin in standing.orders.pins
        ],
        **{
            name: None if signed is None else _stamp_fields(signed)
            for name, signed in (
                ("dry_run", standing.orders.dry_run),
                ("rollback", standing.rollback),
                ("reset", standing.reset),
            )
        },
        "suspensions": suspensions_document(standing.suspensions),
    }


def command_rows(standing: Iterable[ActiveOrders]) -> Iterator[dict[str, Any]]:
    """Yield a row per order that is in force, for people."""
    for each in standing:
        for order, signed, until in each.lines():
            who = {"job_key": each.job_key, "order": order, "by": signed.who}
            yield {**who, "since": time_text(signed.at_ms), "until": until, "reason": signed.reason}


def suspensions_document(reasons: Sequence[Suspension]) -> list[dict[str, Any]]:
    """Return for what a job is suspended, for JSON."""
    return [
        {"what": each.what, "until": _format_instant(each.until_ms), "ends": each.until, **_stamp_fields(each.signed)}
        for each in reasons
    ]


def _stamp_fields(signed: AuditStamp) -> dict[str, Any]:
    return {"by": signed.who, "reason": signed.reason or None, "since": _format_instant(signed.at_ms)}


def _format_instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
