"""Gives state that is stored under plain job ids, as the Java process does it, the keys of this daemon."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Table, func, select

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.tables import JOBS, LEASE, STATE


class AdoptionResult(StrEnum):
    """What became of the state of a job.

    ADOPTED has its new key. NOTHING is stored under the job id, or no longer. REFUSED: there is state under the new
    key already, which is not overwritten.
    """

    ADOPTED = "adopted"
    NOTHING = "nothing"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Adoption:
    """A job whose state should get another key.

    Attributes:
        job_id: Key that the state has, 32 hex digits.
        job_key: Key that it should have.
        cluster: Name of the cluster that lists the job.
        writer: Name of the group of daemons that looks after the job from now on.
    """

    job_id: str
    job_key: JobKey
    cluster: str
    writer: str


def adopt(database: Database, adoption: Adoption, *, is_dry_run: bool = False) -> AdoptionResult:
    """Rename the state of one job in one transaction. Can be repeated.

    The events of the job keep the job id, since they are the history of that time.

    Args:
        database: The database.
        adoption: Which job.
        is_dry_run: Only tell what would become of it.

    Raises:
        StoreError: The database failed; nothing was renamed.
    """
    return database.run(lambda connection: _adopt(database, connection, adoption, is_dry_run))


def leading_daemon(database: Database, name: str) -> str | None:
    """Return which daemon holds a lease now and so writes to the database; None when nobody does.

    Raises:
        StoreError: The database could not be read.
    """
    with database.transaction(read_only=True) as connection:
        is_held = LEASE.c.expires_at > database.now_ms(connection)
        return connection.scalar(select(LEASE.c.owner).where(LEASE.c.name == name, is_held))


def _adopt(database: Database, connection: Connection, adoption: Adoption, is_dry_run: bool) -> AdoptionResult:
    if not _count(connection, STATE, adoption.job_id):
        return AdoptionResult.NOTHING
    if _count(connection, STATE, adoption.job_key) or _count(connection, JOBS, adoption.job_key):
        return AdoptionResult.REFUSED
    if not is_dry_run:
        _rename(database, connection, adoption)
    return AdoptionResult.ADOPTED


def _count(connection: Connection, table: Table, job_key: JobKey) -> int:
    return connection.scalar(select(func.count()).select_from(table).where(table.c.job_key == job_key)) or 0


def _rename(database: Database, connection: Connection, adoption: Adoption) -> None:
    # The time of the last update stays: it belongs to the value.
    connection.execute(STATE.update().where(STATE.c.job_key == adoption.job_id).values(job_key=adoption.job_key))
    # A daemon that used job ids as keys has left a row with what the Java process has no column for. Without one,
    # the job id is noted so that the metric samples count as those of this execution.
    values: dict[str, Any] = {
        "job_key": adoption.job_key,
        "cluster": adoption.cluster,
        "job_id": adoption.job_id,
        "writer": adoption.writer,
        "updated_at": database.now(connection),
    }
    renamed = connection.execute(JOBS.update().where(JOBS.c.job_key == adoption.job_id).values(**values))
    if not renamed.rowcount:
        connection.execute(JOBS.insert().values(**values))
