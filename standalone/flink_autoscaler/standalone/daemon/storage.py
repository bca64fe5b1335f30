"""State store, event handler, orders, and what keeps several daemons on one database apart, as the settings say."""

from __future__ import annotations

import math
import os
import socket
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flink_autoscaler.core.cycle.recording import RecordStore
from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler, AutoScalerStateStore, JobTombstones
from flink_autoscaler.core.ports.forecast_store import ForecastStore
from flink_autoscaler.core.ports.order_store import OrderStore
from flink_autoscaler.standalone.daemon.event_handlers import EventHandlers
from flink_autoscaler.standalone.ha.databases import open_database
from flink_autoscaler.standalone.ha.leadership import RENEWALS, LeaderOnlyEventHandler, Leadership, LeaseLeadership
from flink_autoscaler.standalone.ha.store_health import (
    WORKING,
    FailFastStore,
    StoreHealthMonitor,
    StoreStatus,
    fail_fast,
)
from flink_autoscaler.standalone.settings.schema.settings import JDBC, Settings, needs_database
from flink_autoscaler.stores.heap import HeapForecastStore, HeapOrderStore, HeapRecordStore, HeapTombstones
from flink_autoscaler.stores.outbox import HeapOutbox

if TYPE_CHECKING:
    from flink_autoscaler.standalone.notifications.delivery import Outbox
    from flink_autoscaler.standalone.records.writer import PassRecorder
    from flink_autoscaler.stores.sql.database.database import Database, Fence
    from flink_autoscaler.stores.sql.exclusive_access import ExclusiveAccess


class Storage:
    """The database, if there is one, and everything that depends on whether there is.

    Args:
        settings: What to build.
        on_close: Has something closed in the end, the last one first.

    Attributes:
        is_shared: Whether other daemons may act on the same jobs.
        commands_quarantined: Tells for how many jobs orders were set aside since the start.

    Raises:
        ConfigError: The database cannot be used as it is configured.
    """

    def __init__(self, settings: Settings, *, on_close: Callable[[Callable[[], object]], None]) -> None:
        self._settings = settings
        self._on_close = on_close
        self._database = self._open_database() if needs_database(settings) else None
        self.is_shared = settings.ha.enabled
        self._sole_use = self._make_sole_use()
        self._watch = None if self._database is None else self._make_health_monitor(self._database)
        self._fence: Fence | None = self._sole_use
        self._write_error: Callable[[], StoreError | None] = lambda: None
        self.leadership = self._make_leadership() if self.is_shared else Leadership()
        self.tombstones: JobTombstones = HeapTombstones()
        self.order_book: OrderStore = HeapOrderStore()
        self.commands_quarantined: Callable[[], int] = lambda: 0
        self.forecasts: ForecastStore = HeapForecastStore()
        self.outbox: Outbox = HeapOutbox() if self._database is None else self._make_outbox(self._database)
        self.recorder: PassRecorder | None = None
        self.records: RecordStore | None = None
        if self._database is not None and self._watch is not None and settings.standalone.state_store == JDBC:
            self._keep_in_database(self._database, self._watch)
        elif settings.records.enabled and settings.http.enabled:
            self.recorder = self._make_recorder(HeapRecordStore())

    @property
    def events_database(self) -> Database | None:
        """The database where it keeps events."""
        return self._database if JDBC in self._settings.event_handler_names else None

    def plugin_arguments(self) -> Mapping[str, object]:
        """Return what plug-ins may ask for by name."""
        event_ttl = self._settings.standalone.jdbc_event_handler_ttl
        offered: dict[str, object] = {"writer": self._settings.ha.name, "event_ttl": event_ttl, "fence": self._fence}
        return offered if self._database is None else {**offered, "database": self._database}

    def fail_fast_store(self, store: AutoScalerStateStore) -> AutoScalerStateStore:
        """Return a store, watched where it is in the database."""
        if self._watch is None or self._settings.standalone.state_store != JDBC:
            return store
        self._write_error = getattr(store, "write_error", self._write_error)
        return FailFastStore(store, self._watch)

    def leader_event_handlers(self, handlers: Mapping[str, AutoScalerEventHandler]) -> AutoScalerEventHandler:
        """Return event handlers by name as one: watched in the database, all silent while another daemon leads."""
        watch = self._watch
        told = [
            fail_fast(handler, watch) if watch is not None and name == JDBC else handler
            for name, handler in handlers.items()
        ]
        all_of_them = EventHandlers(told)
        return LeaderOnlyEventHandler(all_of_them, self.leadership) if self.is_shared else all_of_them

    def command_event_handlers(self, handlers: Mapping[str, AutoScalerEventHandler]) -> AutoScalerEventHandler:
        """Return event handlers by name as one that is told of orders, also while another daemon leads.

        A book in the database writes the event with the order itself, so that there is none without the other.
        """
        is_written = self._settings.standalone.state_store == JDBC
        return EventHandlers([handler for name, handler in handlers.items() if not (is_written and name == JDBC)])

    def start(self, on_hopeless: Callable[[ConfigError], None] = lambda _: None) -> None:
        """Look at the database and, with others, try to become the leader; go on with both in the background.

        Args:
            on_hopeless: Told when a database that is away now turns out to be unusable once it is there.

        Raises:
            ConfigError: The database is there and cannot be used as it is configured, or another daemon uses its file.
        """
        if self._sole_use is not None:
            self._on_close(self._sole_use.release)
        if self._watch is not None:
            self._on_close(self._watch.stop)  # before the release: a look on its way would renew the claim
            self._watch.start(on_hopeless)
        self.leadership.start()
        self._on_close(self.leadership.stop)

    def may_write(self, seconds: float = 0.0) -> bool:
        """Tell whether what changes a cluster and takes so many seconds may be sent now."""
        # Also of a daemon that is alone: one that was held up may have been succeeded by another on its file.
        is_sole = self.is_shared or self._sole_use is None or self._sole_use.may_act(seconds)
        return is_sole and self.leadership.is_leader(seconds)

    def require_up(self) -> None:
        """Make sure that the database works. May raise :class:`StoreError`."""
        if self._watch is not None:
            self._watch.require_up()

    def store_status(self) -> StoreStatus:
        """Return what is known about the database; without one, everything works."""
        return WORKING if self._watch is None else self._watch.status()

    def is_degraded(self, since: float = math.inf) -> bool:
        """Tell whether the database may be away, or was at any time from an instant of ``time.monotonic`` on."""
        return self._watch is not None and self._watch.is_degraded(since)

    def _open_database(self, **limits: Any) -> Database:
        database = open_database(self._settings, **limits)
        self._on_close(database.close)
        return database

    def _make_health_monitor(self, database: Database) -> StoreHealthMonitor:
        from flink_autoscaler.stores.sql.database.failures import is_permanent  # noqa: PLC0415
        from flink_autoscaler.stores.sql.schema import require_current  # noqa: PLC0415
        from flink_autoscaler.stores.sql.writability import require_writable  # noqa: PLC0415

        upgrades = self._settings.standalone.jdbc_upgrade_at_start

        def prepare() -> None:
            require_current(database, upgrades_at_start=upgrades)
            database.checkpoint()
            if self._sole_use is not None and self.is_shared:
                self._sole_use.require_unclaimed()
            elif self._sole_use is not None:
                self._sole_use.claim()

        def look() -> None:
            database.save_journal()
            require_writable(database)
            database.checkpoint()
            if self._sole_use is not None and not self.is_shared:
                self._sole_use.renew()

        return StoreHealthMonitor(
            prepare,
            look,
            write_error=self._last_write_error,
            is_permanent=is_permanent,
        )

    def _make_sole_use(self) -> ExclusiveAccess | None:
        if self._database is None or self._database.dialect != "sqlite":
            return None
        from flink_autoscaler.stores.sql.exclusive_access import ExclusiveAccess  # noqa: PLC0415

        return ExclusiveAccess(self._database)

    def _last_write_error(self) -> StoreError | None:
        return self._write_error()

    def _make_leadership(self) -> Leadership:
        from flink_autoscaler.stores.sql.lease import Lease, LeaseFence  # noqa: PLC0415

        ha = self._settings.ha
        # A connection of its own: a renewal must not wait for a free one. Two attempts fit between two renewals.
        patience = ha.ttl / RENEWALS / 2
        database = self._open_database(
            beside=self._database, pool_size=1, pool_timeout=patience, connect_timeout=patience, query_timeout=patience
        )
        # For people, and like no other: a process that is started again must not be taken for the one before.
        owner = f"{socket.gethostname()[:100]}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
        lease = Lease(database, name=ha.name, owner=owner, ttl=ha.ttl)
        leadership = LeaseLeadership(lease, ttl=ha.ttl)
        self._fence = LeaseFence(lease, leadership.bound_term)
        return leadership

    def _make_outbox(self, database: Database) -> Outbox:
        """Let notifications outlive the process."""
        from flink_autoscaler.stores.sql.outbox import SqlOutbox  # noqa: PLC0415

        outbox = SqlOutbox(database, writer=self._settings.ha.name, fence=self._fence)
        return outbox if self._watch is None else fail_fast(outbox, self._watch)

    def _keep_in_database(self, database: Database, watch: StoreHealthMonitor) -> None:
        """Keep what is known about jobs beside their states where those are."""
        from flink_autoscaler.stores.sql.forecasts import SqlForecastStore  # noqa: PLC0415
        from flink_autoscaler.stores.sql.orders import SqlOrderStore  # noqa: PLC0415
        from flink_autoscaler.stores.sql.tombstones import SqlTombstones  # noqa: PLC0415

        self.tombstones = SqlTombstones(database, fence=self._fence, writer=self._settings.ha.name)
        book = SqlOrderStore(database, fence=self._fence, keeps_events=self.events_database is not None)
        self.order_book = fail_fast(book, watch)
        self.commands_quarantined = lambda: book.quarantined_count
        self.forecasts = SqlForecastStore(database)
        if self._settings.records.enabled:
            from flink_autoscaler.stores.sql.records import SqlRecordStore  # noqa: PLC0415

            most, writer = self._settings.records.max_per_job, self._settings.ha.name
            self.recorder = self._make_recorder(SqlRecordStore(database, most_per_job=most, writer=writer))

    def _make_recorder(self, store: RecordStore) -> PassRecorder:
        from flink_autoscaler.standalone.records.writer import PassRecorder  # noqa: PLC0415

        records = self._settings.records
        self.records = store
        recorder = PassRecorder(
            store, interval=records.interval, retention=records.retention, max_size=records.max_size
        )
        self._on_close(recorder.close)
        return recorder
