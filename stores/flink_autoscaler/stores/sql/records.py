"""Recorded passes in the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, delete, func, insert, select

from flink_autoscaler.core.cycle.recording import StoredRecord
from flink_autoscaler.core.model.job import JobKey, cluster_of
from flink_autoscaler.stores.sql.database.database import Database, same_key
from flink_autoscaler.stores.sql.tables import DECISIONS

BATCH: Final = 200
"""Rows removed by one statement: nobody has to wait long for it."""


class SqlRecordStore:
    """Keeps the newest records of every job in ``fa_decision`` (``RecordStore``).

    Writing needs no lease: a record tells what this daemon did while it had one, and is true whenever it is written.

    Args:
        database: Where the table is.
        most_per_job: Records of one job.
        writer: Name of this installation.
    """

    def __init__(self, database: Database, *, most_per_job: int = 500, writer: str = "") -> None:
        self._database = database
        self._most_per_job = most_per_job
        self._writer = writer

    def add(self, records: Sequence[StoredRecord]) -> None:
        """Keep records, and forget the oldest ones of jobs that have too many by now."""
        if records:
            self._database.run(lambda connection: self._add(connection, records))

    def latest(self, job_key: JobKey, at_ms: int | None = None) -> StoredRecord | None:
        """Return the newest record of a job, of those at or before an instant where one is given."""
        with self._database.transaction(read_only=True) as connection:
            newest = select(DECISIONS).where(same_key(connection, DECISIONS.c.job_key, job_key))
            if at_ms is not None:
                newest = newest.where(DECISIONS.c.at_ms <= at_ms)
            row = connection.execute(newest.order_by(DECISIONS.c.at_ms.desc(), DECISIONS.c.id.desc()).limit(1)).first()
        return None if row is None else StoredRecord(row.job_key, row.at_ms, row.phase, row.decision, row.record)

    def list_newest(self, job_key: JobKey, before_ms: int | None, limit: int) -> Sequence[tuple[int, str, str]]:
        """Return instant, phase and decision of the newest records of a job before an instant, the newest first."""
        columns = (DECISIONS.c.at_ms, DECISIONS.c.phase, DECISIONS.c.decision)
        with self._database.transaction(read_only=True) as connection:
            newest = select(*columns).where(same_key(connection, DECISIONS.c.job_key, job_key))
            if before_ms is not None:
                newest = newest.where(DECISIONS.c.at_ms < before_ms)
            rows = connection.execute(newest.order_by(DECISIONS.c.at_ms.desc(), DECISIONS.c.id.desc()).limit(limit))
            return [(row.at_ms, row.phase, row.decision) for row in rows]

    def job_keys(self) -> frozenset[JobKey]:
        """Return the keys of all jobs that have a record."""
        with self._database.transaction(read_only=True) as connection:
            return frozenset(connection.scalars(select(DECISIONS.c.job_key).distinct()))

    def expire(self, before_ms: int) -> int:
        """Forget the records of passes before an instant; return how many there were."""
        removed = 0
        while gone := self._database.run(lambda connection: _remove_some(connection, before_ms)):
            removed += gone
        return removed

    def shrink(self, most_bytes: int) -> int:
        """Forget the oldest records, of whatever job, until the others take no more; return how many there were."""
        size = func.sum(func.length(DECISIONS.c.record)).over(
            order_by=(DECISIONS.c.at_ms.desc(), DECISIONS.c.id.desc())
        )
        summed = select(DECISIONS.c.at_ms, size.label("size")).subquery("summed")
        with self._database.transaction(read_only=True) as connection:
            last = connection.scalar(select(func.max(summed.c.at_ms)).where(summed.c.size > most_bytes))
        return 0 if last is None else self.expire(last + 1)

    def _add(self, connection: Connection, records: Sequence[StoredRecord]) -> None:
        rows = [
            {
                "job_key": record.job_key,
                "cluster": cluster_of(record.job_key),
                "at_ms": record.at_ms,
                "phase": record.phase,
                "decision": record.decision,
                "writer": self._writer,
                "record": record.text,
            }
            for record in records
        ]
        connection.execute(insert(DECISIONS), rows)
        for job_key in dict.fromkeys(record.job_key for record in records):
            self._prune(connection, job_key)

    def _prune(self, connection: Connection, job_key: JobKey) -> None:
        condition = same_key(connection, DECISIONS.c.job_key, job_key)
        newest_first = select(DECISIONS.c.id).where(condition).order_by(DECISIONS.c.at_ms.desc(), DECISIONS.c.id.desc())
        old = connection.scalars(newest_first.offset(self._most_per_job).limit(BATCH)).all()
        if old:
            connection.execute(delete(DECISIONS).where(DECISIONS.c.id.in_(old)))


def _remove_some(connection: Connection, before_ms: int) -> int:
    expired = select(DECISIONS.c.id).where(DECISIONS.c.at_ms < before_ms).order_by(DECISIONS.c.at_ms).limit(BATCH)
    found = connection.scalars(expired).all()
    if found:
        connection.execute(delete(DECISIONS).where(DECISIONS.c.id.in_(found)))
    return len(found)
