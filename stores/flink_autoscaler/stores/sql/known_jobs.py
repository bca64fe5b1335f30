"""Jobs that the database knows: for commands that name one, and for those that give its state another key."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from enum import StrEnum

from sqlalchemy import Connection, Table, func, insert, select, update

from flink_autoscaler.core.model.job import JobKey, cluster_of
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.stores.sql.database.database import Database, same_key
from flink_autoscaler.stores.sql.state.own_state import own_state
from flink_autoscaler.stores.sql.tables import JOBS, LEASE, ORDERS, STATE


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
    return own_state(text, ()).supervision


def supervisions_of(database: Database, *, writer: str, clusters: Collection[str]) -> dict[JobKey, Supervision]:
    """Return what is remembered about the rescales of all jobs of some clusters, as far as it can be read.

    Raises:
        StoreError: The database could not be read.
    """
    ours = (JOBS.c.writer == writer, JOBS.c.cluster.in_({*clusters, cluster_of("")}))
    with database.transaction(read_only=True) as connection:
        rows = connection.execute(select(JOBS.c.job_key, JOBS.c.own_state).where(*ours)).all()
    return {row.job_key: own_state(row.own_state, ()).supervision for row in rows}


class StateImportResult(StrEnum):
    """Outcome of adopting the state of a job.

    ADOPTED has its new key. NOTHING is stored under the job id, or no longer. REFUSED: there is state under the new
    key already, which is not overwritten.
    """

    ADOPTED = "adopted"
    NOTHING = "nothing"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class StateImport:
    """A job whose state should get another key.

    Attributes:
        job_id: Key that the state has, 32 hex digits.
        job_key: Key that it should have.
        cluster: Name of the cluster that lists the job.
        writer: Name of the group of daemons that manages the job from now on.
    """

    job_id: str
    job_key: JobKey
    cluster: str
    writer: str


def import_job_state(database: Database, adoption: StateImport, *, is_dry_run: bool = False) -> StateImportResult:
    """Rename the state of one job in one transaction. Can be repeated.

    The events of the job keep the job id, since they are the history of that time.

    Args:
        database: The database.
        adoption: Which job.
        is_dry_run: Only tell what would become of it.

    Raises:
        StoreError: The database failed; nothing was renamed.
    """
    return database.run(lambda connection: _import_job_state(database, connection, adoption, is_dry_run))


def leading_daemon(database: Database, name: str) -> str | None:
    """Return which daemon holds a lease now and so writes to the database; None when nobody does.

    Raises:
        StoreError: The database could not be read.
    """
    with database.transaction(read_only=True) as connection:
        is_held = LEASE.c.expires_at > database.now_ms(connection)
        return connection.scalar(select(LEASE.c.owner).where(LEASE.c.name == name, is_held))


def _import_job_state(
    database: Database, connection: Connection, adoption: StateImport, is_dry_run: bool
) -> StateImportResult:
    if not _count(connection, STATE, adoption.job_id):
        return StateImportResult.NOTHING
    if _count(connection, STATE, adoption.job_key) or _count(connection, JOBS, adoption.job_key):
        return StateImportResult.REFUSED
    if not is_dry_run:
        _rename(database, connection, adoption)
    return StateImportResult.ADOPTED


def _count(connection: Connection, table: Table, job_key: JobKey) -> int:
    return connection.scalar(select(func.count()).select_from(table).where(table.c.job_key == job_key)) or 0


def _rename(database: Database, connection: Connection, adoption: StateImport) -> None:
    # The time of the last update stays: it belongs to the value.
    connection.execute(update(STATE).where(STATE.c.job_key == adoption.job_id).values(job_key=adoption.job_key))
    # A daemon that used job ids as keys has left a row with what the Java process has no column for. Without one,
    # the job id is noted so that the metric samples count as those of this execution.
    values = {**asdict(adoption), "updated_at": database.now(connection)}
    if not connection.execute(update(JOBS).where(JOBS.c.job_key == adoption.job_id).values(values)).rowcount:
        connection.execute(insert(JOBS).values(values))
