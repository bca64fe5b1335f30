"""State store, event handler, orders, and what keeps several daemons on one database apart, as the settings say."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler, AutoScalerStateStore, JobTombstones
from flink_autoscaler.core.ports.forecast_store import ForecastStore
from flink_autoscaler.core.ports.order_book import OrderBook
from flink_autoscaler.standalone.ha.guarded import GuardedEventHandler
from flink_autoscaler.standalone.ha.leadership import (
    RENEWALS,
    Leadership,
    LeadershipStatus,
    LeaseLeadership,
    SoleLeader,
)
from flink_autoscaler.standalone.ha.store_watch import WORKING, Probe, StoreStatus, StoreWatch
from flink_autoscaler.standalone.ha.watched import WatchedEventHandler, WatchedOrderBook, WatchedStore
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.stores.heap import HeapForecastStore, HeapOrderBook, HeapTombstones

if TYPE_CHECKING:
    from flink_autoscaler.standalone.records.writer import PassRecorder
    from flink_autoscaler.stores.sql.database.database import Database, Fence

JDBC: Final = "jdbc"
"""Name of the plug-ins that keep states and events in the database of the settings."""

OnClose = Callable[[Callable[[], object]], None]


class Storage:
    """The database, if there is one, and everything that depends on whether there is.

    Args:
        settings: What to build.
        on_close: Has something closed in the end, the last one first.
        on_hopeless: Told when a database that was away at the start turns out to be unusable.

    Raises:
        ConfigError: The database cannot be used as it is configured.
    """

    def __init__(
        self, settings: Settings, *, on_close: OnClose, on_hopeless: Callable[[ConfigError], None] = lambda _: None
    ) -> None:
        self._settings = settings
        self._on_close = on_close
        self._fence: Fence | None = None
        self._lease_leadership: LeaseLeadership | None = None
        self._database = self._open_database() if needs_database(settings) else None
        self._watch = None if self._database is None else self._make_watch(self._database, on_hopeless)
        if settings.ha.enabled:
            self._lease_leadership = self._make_leadership()
        self.leadership: Leadership = self._lease_leadership or SoleLeader()
        self.tombstones = self._make_tombstones()
        self.order_book = self._make_order_book()
        self.recorder = self._make_recorder()
        self.forecasts = self._make_forecasts()

    @property
    def is_shared(self) -> bool:
        """Whether other daemons may act on the same jobs."""
        return self._lease_leadership is not None

    def offered(self) -> Mapping[str, object]:
        """Return what plug-ins may ask for by name."""
        event_ttl = self._settings.standalone.jdbc_event_handler_ttl
        offered: dict[str, object] = {"writer": self._settings.ha.name, "event_ttl": event_ttl, "fence": self._fence}
        return offered if self._database is None else {**offered, "database": self._database}

    def watched_store(self, store: AutoScalerStateStore) -> AutoScalerStateStore:
        """Return a store, watched where it is in the database."""
        is_in_database = self._watch is not None and self._settings.standalone.state_store == JDBC
        return WatchedStore(store, self._watch) if self._watch is not None and is_in_database else store

    def guarded_events(self, handler: AutoScalerEventHandler) -> AutoScalerEventHandler:
        """Return an event handler, watched where it is in the database, and silent while another daemon leads."""
        if self._watch is not None and self._settings.standalone.event_handler == JDBC:
            handler = WatchedEventHandler(handler, self._watch)
        return GuardedEventHandler(handler, self.leadership) if self.is_shared else handler

    def start(self) -> None:
        """Look at the database and, with others, try to become the leader; go on with both in the background.

        Raises:
            ConfigError: The database is there and cannot be used as it is configured.
        """
        if self._watch is not None:
            self._watch.start()
            self._on_close(self._watch.stop)
        if self._lease_leadership is not None:
            self._lease_leadership.start()
            self._on_close(self._lease_leadership.stop)

    def require_up(self) -> None:
        """Make sure that the database works.

        Raises:
            StoreError: It does not.
        """
        if self._watch is not None:
            self._watch.require_up()

    def stop_leading(self, *, is_idle: bool) -> None:
        """Let another daemon take over: at once, or once the lease has run out where passes are still under way."""
        if self._lease_leadership is not None:
            self._lease_leadership.stop(is_idle=is_idle)

    def store_status(self) -> StoreStatus:
        """Return what is known about the database; without one, everything works."""
        return WORKING if self._watch is None else self._watch.status()

    def is_in_doubt(self) -> bool:
        """Tell whether the database may be away."""
        return self._watch is not None and self._watch.is_in_doubt()

    def leadership_status(self) -> LeadershipStatus | None:
        """Return what this daemon is among several; None where there is only one."""
        return None if self._lease_leadership is None else self._lease_leadership.status()

    def _open_database(self, **limits: Any) -> Database:
        # Imported here, as everything of the database: who does not use one need not have it installed.
        try:
            from flink_autoscaler.standalone.ha.databases import database_settings  # noqa: PLC0415
            from flink_autoscaler.stores.sql.database.database import Database  # noqa: PLC0415
        except ModuleNotFoundError as error:
            extras = "flink-autoscaler[postgresql], [mysql] or [sql]"
            raise ConfigError(f"{error.name} is not installed, which a database needs: install {extras}") from error
        reached = database_settings(self._settings.standalone, os.environ)
        database = Database(replace(reached, **limits))
        self._on_close(database.close)
        return database

    def _make_watch(self, database: Database, on_hopeless: Callable[[ConfigError], None]) -> StoreWatch:
        from flink_autoscaler.stores.sql.database.failures import is_lasting  # noqa: PLC0415
        from flink_autoscaler.stores.sql.schema import require_current  # noqa: PLC0415

        upgrades = self._settings.standalone.jdbc_upgrade_at_start
        probe = Probe(
            prepare=lambda: require_current(database, upgrades_at_start=upgrades),
            ping=database.ping,
            is_lasting=is_lasting,
        )
        return StoreWatch(probe, on_hopeless=on_hopeless)

    def _make_leadership(self) -> LeaseLeadership:
        from flink_autoscaler.stores.sql.lease import Lease, LeaseFence  # noqa: PLC0415

        ha = self._settings.ha
        # A connection of its own: a renewal must not wait for a free one. Two attempts fit between two renewals.
        patience = ha.ttl / RENEWALS / 2
        database = self._open_database(
            pool_size=1, pool_timeout=patience, connect_timeout=patience, query_timeout=patience
        )
        lease = Lease(database, name=ha.name, owner=_owner(), ttl=ha.ttl)
        leadership = LeaseLeadership(lease, ttl=ha.ttl)
        self._fence = LeaseFence(lease, leadership.acting_term)
        return leadership

    def _make_tombstones(self) -> JobTombstones:
        if self._database is None or self._settings.standalone.state_store != JDBC:
            return HeapTombstones()
        from flink_autoscaler.stores.sql.tombstones import SqlTombstones  # noqa: PLC0415

        return SqlTombstones(self._database, fence=self._fence, writer=self._settings.ha.name)

    def _make_order_book(self) -> OrderBook:
        if self._database is None or self._watch is None or self._settings.standalone.state_store != JDBC:
            return HeapOrderBook()
        from flink_autoscaler.stores.sql.orders import SqlOrderBook  # noqa: PLC0415

        return WatchedOrderBook(SqlOrderBook(self._database, fence=self._fence), self._watch)

    def _make_recorder(self) -> PassRecorder | None:
        records = self._settings.records
        if self._database is None or not records.enabled or self._settings.standalone.state_store != JDBC:
            return None
        from flink_autoscaler.standalone.records.writer import PassRecorder  # noqa: PLC0415
        from flink_autoscaler.stores.sql.records import SqlRecordStore  # noqa: PLC0415

        store = SqlRecordStore(self._database, most_per_job=records.max_per_job, writer=self._settings.ha.name)
        recorder = PassRecorder(store, interval=records.interval, retention=records.retention)
        self._on_close(recorder.close)
        return recorder

    def _make_forecasts(self) -> ForecastStore:
        if self._database is None or self._settings.standalone.state_store != JDBC:
            return HeapForecastStore()
        from flink_autoscaler.stores.sql.forecasts import SqlForecastStore  # noqa: PLC0415

        return SqlForecastStore(self._database)


def needs_database(settings: Settings) -> bool:
    """Tell whether the settings name something that is in the database."""
    return settings.ha.enabled or JDBC in (settings.standalone.state_store, settings.standalone.event_handler)


def _owner() -> str:
    """Name this process: for people, and like no other."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
