"""Which jobs a person may mean, and what is remembered about their rescales."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, select

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.stores.sql.database.conditions import same_key
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.state.own_state import own_state
from flink_autoscaler.stores.sql.state.rows import cluster_of
from flink_autoscaler.stores.sql.tables import JOBS, ORDERS


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job that has a state or orders.

    Attributes:
        job_id: Flink's id when the state was written last; None when there is no state.
    """

    job_key: JobKey
    job_id: str | None = None

    @property
    def name(self) -> str:
        """The part of the key behind the cluster."""
        return self.job_key.partition("/")[2] or self.job_key


def known_jobs(database: Database, *, writer: str, clusters: Collection[str]) -> tuple[KnownJob, ...]:
    """Return the jobs of some clusters, by key; those whose keys do not name a cluster are among them.

    Args:
        database: The database.
        writer: Name of the installation that has written the states.
        clusters: Names of its clusters.

    Raises:
        StoreError: The database could not be read.
    """

    def read(connection: Connection) -> tuple[KnownJob, ...]:
        places = {*clusters, cluster_of("")}
        ours = select(JOBS.c.job_key, JOBS.c.job_id).where(JOBS.c.writer == writer, JOBS.c.cluster.in_(places))
        ordered = connection.scalars(select(ORDERS.c.job_key).where(ORDERS.c.cluster.in_(places)))
        found: dict[JobKey, str | None] = dict.fromkeys(ordered)
        found |= {row.job_key: row.job_id for row in connection.execute(ours)}
        return tuple(KnownJob(job_key, found[job_key]) for job_key in sorted(found))

    return database.run(read, read_only=True)


def supervision_of(database: Database, job_key: JobKey) -> Supervision:
    """Return what is remembered about the rescales of a job; nothing where there is no state or it cannot be read.

    Raises:
        StoreError: The database could not be read.
    """
    with database.transaction(read_only=True) as connection:
        text = connection.scalar(select(JOBS.c.own_state).where(same_key(connection, JOBS.c.job_key, job_key)))
    return own_state(text, ())[1]
