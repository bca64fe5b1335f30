"""Tombstones of jobs in the database, so that a restart does not start their time anew."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, delete, insert, select, update

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.stores.sql.database.database import Database, Fence
from flink_autoscaler.stores.sql.tables import JOBS, TOMBSTONES

BATCH: Final = 200
"""Keys in one statement."""
SEEN_AGAIN_AFTER: Final = 86_400.0
"""Seconds after which a job that is present is noted down as seen again: the retention is a matter of days."""


class SqlTombstones:
    """Marks gone jobs in ``fa_tombstone`` and knows from ``fa_job`` when a job was last seen (``JobTombstones``).

    Only jobs with a row in ``fa_job`` of the same writer and cluster exist for it: what other installations or the
    Java process wrote is never given out for deletion. A key that is a plain job id does not name its cluster; the
    first search after the job was listed notes it down. All times are by the database's clock.

    Args:
        database: Where the tables are.
        fence: Checked first in every transaction that writes.
        writer: Name of this installation, as given to the state store.
    """

    def __init__(self, database: Database, *, fence: Fence | None = None, writer: str = "") -> None:
        self._database = database
        self._fence = fence
        self._writer = writer

    def marked(self, cluster: str) -> frozenset[JobKey]:
        """Return the jobs of a cluster that are marked as gone."""
        with self._database.transaction(read_only=True) as connection:
            return frozenset(self._marked(connection, cluster))

    def mark(self, cluster: str, job_keys: Collection[JobKey]) -> None:
        """Mark jobs as gone from now on, as far as they have a state of ours; marked ones keep their time."""
        if job_keys:
            self._database.run(lambda connection: self._mark(connection, cluster, job_keys), fence=self._fence)

    def clear(self, cluster: str, job_keys: Collection[JobKey]) -> None:
        """Remove the marks of jobs."""
        del cluster  # keys are unique
        if job_keys:
            self._database.run(lambda connection: _clear(connection, job_keys), fence=self._fence)

    def due(self, cluster: str, seconds: float) -> frozenset[JobKey]:
        """Return the jobs of a cluster that were marked at least so long ago."""
        with self._database.transaction(read_only=True) as connection:
            latest = self._database.now_ms(connection) - round(seconds * 1000)
            return frozenset(self._marked(connection, cluster, TOMBSTONES.c.gone_at_ms <= latest))

    def unseen(self, cluster: str, present: Collection[JobKey], seconds: float) -> frozenset[JobKey]:
        """Return jobs of a cluster with a state of ours that are not present and were not seen for so long."""
        return self._database.run(
            lambda connection: self._unseen(connection, cluster, present, seconds), fence=self._fence
        )

    def _mark(self, connection: Connection, cluster: str, job_keys: Collection[JobKey]) -> None:
        present = {*self._marked(connection, cluster)}
        now_ms = self._database.now_ms(connection)
        for batch in _batches([job_key for job_key in job_keys if job_key not in present]):
            ours = connection.scalars(self._ours(cluster).where(JOBS.c.job_key.in_(batch))).all()
            rows = [{"job_key": job_key, "cluster": cluster, "gone_at_ms": now_ms} for job_key in ours]
            if rows:
                # A mark that was left behind by another cluster of the same keys is out of date.
                connection.execute(delete(TOMBSTONES).where(TOMBSTONES.c.job_key.in_(ours)))
                connection.execute(insert(TOMBSTONES), rows)

    def _unseen(
        self, connection: Connection, cluster: str, present: Collection[JobKey], seconds: float
    ) -> frozenset[JobKey]:
        self._note_as_seen(connection, cluster, present)
        oldest = self._database.local_time(self._database.now_ms(connection) / 1000 - seconds)
        # A row whose key does not name its cluster belongs to the one that listed it last, once one has.
        silent = connection.scalars(self._ours(cluster).where(JOBS.c.cluster == cluster, JOBS.c.updated_at <= oldest))
        return frozenset(silent).difference(present)

    def _note_as_seen(self, connection: Connection, cluster: str, present: Collection[JobKey]) -> None:
        now_ms = self._database.now_ms(connection)
        before = self._database.local_time(now_ms / 1000 - SEEN_AGAIN_AFTER)
        is_due = (JOBS.c.updated_at <= before) | (JOBS.c.cluster != cluster)
        due = set(connection.scalars(self._ours(cluster).where(is_due)))
        for batch in _batches(due.intersection(present)):
            seen = update(JOBS).where(JOBS.c.job_key.in_(batch))
            values = {"cluster": cluster, "updated_at": self._database.local_time(now_ms / 1000)}
            connection.execute(seen.values(values))

    def _marked(self, connection: Connection, cluster: str, *conditions: ColumnElement[bool]) -> Sequence[JobKey]:
        joined = self._ours(cluster).join(TOMBSTONES, TOMBSTONES.c.job_key == JOBS.c.job_key)
        return connection.scalars(joined.where(TOMBSTONES.c.cluster == cluster, *conditions)).all()

    def _ours(self, cluster: str) -> Select[Any]:
        """Select the keys of jobs whose state this installation wrote; those that are mere job ids included."""
        in_cluster = (JOBS.c.cluster == cluster) | JOBS.c.job_key.not_like("%/%")
        return select(JOBS.c.job_key).where(JOBS.c.writer == self._writer, in_cluster)


def _clear(connection: Connection, job_keys: Collection[JobKey]) -> None:
    for batch in _batches(job_keys):
        connection.execute(delete(TOMBSTONES).where(TOMBSTONES.c.job_key.in_(batch)))


def _batches(job_keys: Collection[JobKey]) -> Iterator[list[JobKey]]:
    keys = list(job_keys)
    for start in range(0, len(keys), BATCH):
        yield keys[start : start + BATCH]
