"""Notices that wait in a database: they outlive the process, and no two daemons send the same one."""

from __future__ import annotations

import math
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, update

from flink_autoscaler.core.model.notifications import MAX_SENT, MAX_WAITING, Notification, NotificationBatch
from flink_autoscaler.stores.sql.database.database import Database, Fence
from flink_autoscaler.stores.sql.tables import NOTIFICATIONS

_ROW = NOTIFICATIONS.c
_KEPT_MS: Final = 86_400_000
"""Milliseconds for which is known what was settled."""

_REMOVED_AT_ONCE: Final = 1000


class SqlOutbox:
    """Keeps notices in a database (an ``Outbox``). Every instant is one of the database's clock. Thread-safe.

    A notice is claimed by a statement that only one transaction can win, and settled only by who has claimed it.

    Args:
        database: Where the table is.
        writer: Group of daemons whose notices these are; those of other groups are not touched.
        fence: Checked first in the transactions that add, claim and give up. Not in those that settle: whoever has
            sent something may say so, also when another daemon leads by then.
        max_waiting: Notices of one target that wait at most.
    """

    def __init__(
        self, database: Database, *, writer: str, fence: Fence | None = None, max_waiting: int = MAX_WAITING
    ) -> None:
        self._database = database
        self._writer = writer
        self._fence = fence
        self._max_waiting = max_waiting

    def add(self, notices: Sequence[Notification]) -> None:
        """Keep notices that are no repetitions. May raise :class:`StoreError`; they may be kept nevertheless then."""
        self._database.run(lambda connection: self._add(connection, notices), fence=self._fence)

    def lease(self, target: str, seconds: float) -> NotificationBatch | float:
        """Claim what is to be sent now; else return the seconds until there may be something.

        Raises:
            StoreError: The database failed; what was claimed nevertheless can be claimed again after some time.
        """
        # Looked at first without a lock: most of the time there is nothing to claim.
        wait = self._database.run(lambda connection: self._wait(connection, target), read_only=True)
        if wait > 0:
            return wait
        return self._database.run(lambda connection: self._claim(connection, target, seconds), fence=self._fence)

    def ack(self, claim: str) -> None:
        """Take note that what was claimed was sent, or is given up. May raise :class:`StoreError`."""

        def note(connection: Connection) -> None:
            connection.execute(self._of(claim).values(settled_ms=self._database.now_ms(connection)))

        self._database.run(note)

    def nack(self, claim: str) -> None:
        """Let what was claimed wait again. May raise :class:`StoreError`."""
        self._database.run(lambda connection: connection.execute(self._of(claim).values(claim="", claimed_until_ms=0)))

    def pending_count(self, target: str) -> int:
        """Return how many notices of a target are neither sent nor given up. May raise :class:`StoreError`."""
        found = select(func.count()).select_from(NOTIFICATIONS).where(self._waits(target))
        return self._database.run(lambda connection: connection.scalar(found) or 0, read_only=True)

    def expire(self, age: float) -> Mapping[str, int]:
        """Give up what has waited for too long or is too much; return how many notices that were by target."""
        given_up: Counter[str] = Counter()
        while gone := self._database.run(lambda connection: self._expire(connection, age), fence=self._fence):
            given_up += gone
        while self._database.run(self._forget, fence=self._fence):
            continue
        return dict(given_up)

    def _add(self, connection: Connection, notices: Sequence[Notification]) -> None:
        now_ms = self._database.now_ms(connection)
        for notice in notices:
            same = and_(_ROW.identity == notice.identity, _ROW.repeat_until_ms > now_ms)
            known = select(_ROW.id).where(_ROW.writer == self._writer, _ROW.target == notice.target)
            # The notice itself may be there: of a transaction that failed, it is not always known that it did.
            if connection.execute(known.where(same | (_ROW.notice_id == notice.notice_id)).limit(1)).first() is None:
                connection.execute(insert(NOTIFICATIONS).values(self._row(notice, now_ms)))

    def _row(self, notice: Notification, now_ms: int) -> dict[str, Any]:
        return {
            "notice_id": notice.notice_id,
            "writer": self._writer,
            "target": notice.target,
            "identity": notice.identity,
            "added_ms": now_ms,
            "repeat_until_ms": now_ms + round(notice.interval * 1000),
            "claim": "",
            "claimed_until_ms": 0,
            "settled_ms": 0,
            "notice": notice.text,
        }

    def _wait(self, connection: Connection, target: str) -> float:
        """Return the seconds until something may be claimed; infinite when nothing waits."""
        now_ms = self._database.now_ms(connection)
        free_ms = connection.scalar(select(func.min(_ROW.claimed_until_ms)).where(self._waits(target)))
        return math.inf if free_ms is None else (free_ms - now_ms) / 1000

    def _claim(self, connection: Connection, target: str, seconds: float) -> NotificationBatch | float:
        now_ms = self._database.now_ms(connection)
        is_free = and_(self._waits(target), _ROW.claimed_until_ms <= now_ms)
        chosen = connection.scalars(select(_ROW.id).where(is_free).order_by(_ROW.id).limit(MAX_SENT)).all()
        claim = uuid.uuid4().hex
        values = {"claim": claim, "claimed_until_ms": now_ms + round(seconds * 1000)}
        # Asked once more for each row: another transaction may have claimed it since.
        connection.execute(update(NOTIFICATIONS).where(_ROW.id.in_(chosen), is_free).values(values))
        mine = select(_ROW.notice).where(_ROW.id.in_(chosen), _ROW.claim == claim).order_by(_ROW.id)
        texts = connection.scalars(mine).all()
        return NotificationBatch(claim, tuple(texts)) if texts else 0.0

    def _waits(self, target: str) -> ColumnElement[bool]:
        return and_(_ROW.writer == self._writer, _ROW.target == target, _ROW.settled_ms == 0)

    def _of(self, claim: str) -> Any:
        return update(NOTIFICATIONS).where(_ROW.writer == self._writer, _ROW.claim == claim, _ROW.settled_ms == 0)

    def _expire(self, connection: Connection, age: float) -> Counter[str]:
        """Remove some notices that have waited for too long, or are older than as many as may wait."""
        now_ms = self._database.now_ms(connection)
        waits = and_(_ROW.writer == self._writer, _ROW.settled_ms == 0, _ROW.claimed_until_ms <= now_ms)
        old = select(_ROW.id, _ROW.target).where(waits, _ROW.added_ms <= now_ms - round(age * 1000))
        gone = {row.id: row.target for row in connection.execute(old.limit(_REMOVED_AT_ONCE))}
        for target in connection.scalars(select(_ROW.target).distinct().where(waits)).all():
            newest = select(_ROW.id).where(waits, _ROW.target == target).order_by(_ROW.id.desc())
            too_many = connection.scalars(newest.offset(self._max_waiting).limit(_REMOVED_AT_ONCE))
            gone |= dict.fromkeys(too_many, target)
        _remove(connection, list(gone))
        return Counter(gone.values())

    def _forget(self, connection: Connection) -> int:
        """Remove some notices that were settled long ago and whose repetitions would be news."""
        now_ms = self._database.now_ms(connection)
        settled = and_(_ROW.writer == self._writer, _ROW.settled_ms > 0, _ROW.settled_ms < now_ms - _KEPT_MS)
        old = select(_ROW.id).where(settled, _ROW.repeat_until_ms < now_ms).limit(_REMOVED_AT_ONCE)
        return _remove(connection, list(connection.scalars(old)))


def _remove(connection: Connection, ids: Sequence[int]) -> int:
    if ids:
        connection.execute(delete(NOTIFICATIONS).where(_ROW.id.in_(set(ids))))
    return len(set(ids))
