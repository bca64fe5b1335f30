"""A lease in the database: which of several daemons may act, and a fence that keeps the others from writing."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, func, insert, select, text, update

from flink_autoscaler.stores.clock import monotonic_seconds
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.database.failures import ConflictError, LeaseLostError
from flink_autoscaler.stores.sql.tables import LEASE

MARGIN: Final = 0.1
"""Share of the time to live by which a holder stops before the database lets somebody else in: room for clocks that do
not run equally fast, and for the instant between looking at the clock and acting."""

_IDLE_SHARE: Final = 0.5
"""Share of the time to live after which the server ends a transaction whose client has gone silent. A paused holder
keeps its row locks until then; they have to be gone before its lease is."""

_IDLE_SETTING: Final = "flink_autoscaler_idle_limit"


class _HeldLease(NamedTuple):
    """A token, and until when this process counts itself its holder, by a clock of its own."""

    token: int
    until: float


class Lease:
    """One row that at most one daemon holds at a time.

    Every acquisition gives a greater token than all before it. Who may acquire is decided by the clock of the
    database alone. How long the holder relies on its lease is decided by its own clock, counted from before the last
    successful renewal was sent: a holder that was paused or cut off stops by itself, and before anybody else begins.
    Safe to use from several threads; at most one of them acquires and renews.

    Args:
        database: Where the row is.
        name: Of the row; daemons with the same name take turns.
        owner: Identifies this process among all that ever use the name.
        ttl: Seconds that a lease lasts unless it is renewed.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self, database: Database, *, name: str, owner: str, ttl: float, clock: Callable[[], float] = monotonic_seconds
    ) -> None:
        self.name = name
        self.owner = owner
        self.ttl = ttl
        self._database = database
        self._clock = clock
        self._lock = Lock()
        self._held: _HeldLease | None = None
        self._holder: str | None = None

    @property
    def token(self) -> int | None:
        """The token of this process, also when it has not been renewed in time; None once it is known to be lost."""
        held = self._held
        return None if held is None else held.token

    @property
    def holder(self) -> str | None:
        """The owner that was found when the lease was last asked for; None when it was free."""
        return self._holder

    def remaining(self) -> float:
        """Return the seconds for which this process may still rely on the lease; 0 when it may not."""
        held = self._held
        return 0.0 if held is None else max(0.0, held.until - self._clock())

    def acquire(self) -> bool:
        """Take the lease if nobody holds it, and tell whether this process has it now.

        Raises:
            StoreError: The database failed; this process does not have the lease.
        """
        found = self._database.run(self._find, read_only=True)
        self._holder = found.owner if found is not None and found.is_held else None
        if self._holder is not None:
            return False
        sent = self._clock()
        try:
            token = self._database.run(self._insert if found is None else self._take)
        except ConflictError:
            return False  # somebody else made the row at the same time
        if token is None:
            return False
        with self._lock:
            self._held = self._from(token, sent)
        return True

    def renew(self) -> bool:
        """Make the lease last for its time to live from now, and tell whether this process still has it.

        It also works after the lease ran out, as long as nobody else took it: nobody has acted since.

        Raises:
            StoreError: The database failed. The lease lasts as long as it did before.
        """
        token = self.token
        if token is None:
            return False
        sent = self._clock()
        if not self._database.run(lambda connection: self._extend(connection, token)):
            self.lose(token)
            return False
        with self._lock:
            # It may have been released while the answer was on its way.
            if self.token == token:
                self._held = self._from(token, sent)
            return self.token == token

    def release(self) -> None:
        """Give the lease up, so that another daemon can take it at once. Without it, do nothing.

        Raises:
            StoreError: The database failed; the lease runs out by itself.
        """
        token = self.token
        if token is None:
            return
        self.lose(token)  # before the row says so: whoever sees it may act at once
        self._database.run(lambda connection: self._set(connection, token, expires_at=0))

    def lose(self, token: int) -> None:
        """Take note that a token is not the current one any more."""
        with self._lock:
            if self.token == token:
                self._held = None

    def _from(self, token: int, sent: float) -> _HeldLease:
        return _HeldLease(token, sent + self.ttl * (1 - MARGIN))

    def _find(self, connection: Connection) -> Row[tuple[str, bool]] | None:
        """Look at the row without a lock: those who wait ask often."""
        is_held = (LEASE.c.expires_at > self._database.now_ms(connection)).label("is_held")
        return connection.execute(select(LEASE.c.owner, is_held).where(LEASE.c.name == self.name)).one_or_none()

    def _take(self, connection: Connection) -> int | None:
        _limit_idle_transaction(connection, self.ttl)
        # A row that is locked is not waited for: somebody else takes the lease, or an old holder still writes.
        row = select(LEASE.c.token, LEASE.c.expires_at).where(LEASE.c.name == self.name)
        found = connection.execute(row.with_for_update(skip_locked=True)).one_or_none()
        # The clock is read after the lock was granted, which may have taken a while.
        now_ms = self._database.now_ms(connection)
        if found is None or found.expires_at > now_ms:
            return None
        token = int(found.token) + 1
        values = {"owner": self.owner, "token": token, **self._times(now_ms)}
        connection.execute(update(LEASE).where(LEASE.c.name == self.name).values(values))
        return token

    def _insert(self, connection: Connection) -> int:
        _limit_idle_transaction(connection, self.ttl)
        values = {"name": self.name, "owner": self.owner, "token": 1}
        connection.execute(insert(LEASE).values({**values, **self._times(self._database.now_ms(connection))}))
        return 1

    def _extend(self, connection: Connection, token: int) -> bool:
        return self._set(connection, token, **self._times(self._database.now_ms(connection)))

    def _set(self, connection: Connection, token: int, **values: int) -> bool:
        _limit_idle_transaction(connection, self.ttl)
        is_ours = (LEASE.c.name == self.name) & (LEASE.c.token == token) & (LEASE.c.owner == self.owner)
        return connection.execute(update(LEASE).where(is_ours).values(values)).rowcount == 1

    def _times(self, now_ms: int) -> dict[str, int]:
        return {"expires_at": now_ms + round(self.ttl * 1000), "renewed_at": now_ms}


class LeaseFence:
    """Lets a transaction write while the token it acts under is the current one (a ``Fence``).

    The row stays locked until the transaction ends, in a way that other writers and renewals do not wait for, so that
    nobody else can take the lease in between.

    Args:
        lease: The lease of this process.
        token: Gives the token that the calling thread acts under; None when it may not write.
    """

    def __init__(self, lease: Lease, token: Callable[[], int | None]) -> None:
        self._lease = lease
        self._token = token

    def check(self, connection: Connection) -> None:
        """Lock the lease, so that its token cannot change before the transaction ends.

        Raises:
            LeaseLostError: The token is not the current one.
        """
        lease, token = self._lease, self._token()
        if token is None:
            raise LeaseLostError(f"this daemon does not hold the lease '{lease.name}' and writes nothing")
        found = self._lock_row(connection)
        if found is None or (found.token, found.owner) != (token, lease.owner):
            lease.lose(token)
            holder = "nobody" if found is None else found.owner
            raise LeaseLostError(f"the lease '{lease.name}' was lost to {holder}; nothing is written")

    def _lock_row(self, connection: Connection) -> Row[tuple[int, str]] | None:
        columns: list[Any] = [LEASE.c.token, LEASE.c.owner]
        if connection.dialect.name == "postgresql":
            # In the same statement, because every write of the daemon begins with it.
            columns.append(_idle_setting(self._lease.ttl))
        else:
            _limit_idle_transaction(connection, self._lease.ttl)
        row = select(*columns).where(LEASE.c.name == self._lease.name)
        # FOR KEY SHARE in PostgreSQL, where renewals do not change the key; LOCK IN SHARE MODE in MySQL.
        return connection.execute(row.with_for_update(read=True, key_share=True)).one_or_none()


def _limit_idle_transaction(connection: Connection, ttl: float) -> None:
    """Have the server end this transaction once its client has gone silent, so that its row locks go before the lease.

    A holder may be paused or cut off at any instant, also between the statement that locks the row and the commit.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(_idle_setting(ttl)))
    elif connection.dialect.name == "mysql":
        _limit_idle_time(connection, max(1, round(ttl * _IDLE_SHARE)))


def _idle_setting(ttl: float) -> Any:
    """Return what sets the limit for the present transaction of PostgreSQL."""
    milliseconds = max(1, round(ttl * _IDLE_SHARE * 1000))
    return func.set_config("idle_in_transaction_session_timeout", str(milliseconds), True)


def _limit_idle_time(connection: Connection, seconds: int) -> None:
    """Have the server drop a silent client of MySQL or MariaDB; once per connection, as it stays."""
    if connection.info.get(_IDLE_SETTING) == seconds:
        return
    is_mariadb = getattr(connection.dialect, "is_mariadb", False)
    # MySQL knows no limit for transactions, only for connections; the pool notices and opens another one.
    connection.execute(text(f"SET SESSION {'idle_transaction_timeout' if is_mariadb else 'wait_timeout'} = {seconds}"))
    connection.info[_IDLE_SETTING] = seconds
