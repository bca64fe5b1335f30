"""The rows of one job: read with one statement, written with at most one of each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BindParameter,
    Connection,
    DateTime,
    String,
    Update,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)

from flink_autoscaler.core.model.job import JobKey, cluster_of
from flink_autoscaler.stores.sql.database.database import Database, same_key, same_key_in
from flink_autoscaler.stores.sql.database.failures import RowError
from flink_autoscaler.stores.sql.state.codec import KINDS, TEXT_LIMIT, DocumentError, StateType, decode
from flink_autoscaler.stores.sql.state.own_state import own_state_damage
from flink_autoscaler.stores.sql.tables import JOBS, SET_ASIDE, STATE

OWN_STATE: Final = "ownState"
"""What our own part of a state is called among values that were set aside."""

_PROBLEM_LENGTH = 500
_TYPES = {state_type.value: state_type for state_type in StateType}


class StoredPart(NamedTuple):
    """A row of the state table.

    Attributes:
        part: What it means; the empty value when it cannot be read.
        digest: Of its text; empty when the text cannot be trusted to be what ``part`` would be written as.
        problem: What is wrong with it; None when nothing is.
    """

    part: Any
    digest: bytes
    problem: str | None = None


class JobRecord(NamedTuple):
    """The row of a job in our own table; ``own_state`` is JSON, None when there is nothing to keep."""

    job_id: str | None
    own_state: str | None


@dataclass(frozen=True, slots=True)
class StoredJob:
    """Rows of the database about a job.

    Attributes:
        parts: By kind of state. Kinds of a later version are not in here and never touched.
        record: None when there is no row.
        damage: Why the own state in that row cannot be read; None when it can.
    """

    parts: Mapping[StateType, StoredPart] = field(default_factory=dict)
    record: JobRecord | None = None
    damage: str | None = None


@dataclass
class RowChanges:
    """Rows to write about a job.

    Attributes:
        stored: What the database holds.
        keep: What was wrong with values that have to be kept before they are replaced.
        inserts: New texts by kind.
        updates: Replaced texts by kind.
        deletes: Kinds that have no value any more.
        parts: What the database holds afterwards, by kind.
        record: The row in our own table; None when it stays as it is.
    """

    stored: StoredJob
    keep: dict[StateType, str] = field(default_factory=dict)
    inserts: dict[StateType, str] = field(default_factory=dict)
    updates: dict[StateType, str] = field(default_factory=dict)
    deletes: list[StateType] = field(default_factory=list)
    parts: dict[StateType, StoredPart] = field(default_factory=dict)
    record: JobRecord | None = None

    def __bool__(self) -> bool:
        return bool(self.keep or self.inserts or self.updates or self.deletes or self.record)

    @property
    def only_replaces(self) -> bool:
        """True when every row to write replaces one whose value nobody needs any more."""
        has_record = self.stored.record is not None and self.stored.damage is None
        return not (self.keep or self.inserts or self.deletes) and (self.record is None or has_record)

    @property
    def stored_after(self) -> StoredJob:
        """Rows of the database afterwards."""
        return StoredJob(self.parts, self.record or self.stored.record, None if self.record else self.stored.damage)


def digest(text: str) -> bytes:
    """Return a short stand-in for a text, for comparisons."""
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest()


def read_stored_job(connection: Connection, job_key: JobKey) -> StoredJob:
    """Read all rows of a job with one statement; values that are too long are not fetched."""
    size = func.length if connection.dialect.name == "sqlite" else func.octet_length
    value = case((size(STATE.c.state_value) <= TEXT_LIMIT, STATE.c.state_value))
    one = select(literal(1).label("one")).subquery("one")
    rows = connection.execute(
        select(STATE.c.job_key, STATE.c.state_type, value, JOBS.c.job_key, JOBS.c.job_id, JOBS.c.own_state).select_from(
            one.outerjoin(STATE, same_key(connection, STATE.c.job_key, job_key)).outerjoin(
                JOBS, same_key(connection, JOBS.c.job_key, job_key)
            )
        )
    ).all()
    parts = {_TYPES[name]: _part(_TYPES[name], text) for _, name, text, *_ in rows if name in _TYPES}
    *_, key, job_id, own_state = rows[0]
    # What SQLite has in a column may be of any kind.
    record = None if key is None else JobRecord(job_id if isinstance(job_id, str) else None, own_state)
    return StoredJob(parts, record, own_state_damage(own_state))


def _part(state_type: StateType, text: object) -> StoredPart:
    try:
        if not isinstance(text, str):
            raise DocumentError(f"not a text, or longer than {TEXT_LIMIT >> 20} MiB")
        part, problem = decode(state_type, text)
    except DocumentError as error:
        return StoredPart(KINDS[state_type].empty, b"", str(error))
    return StoredPart(part, digest(text), problem)


def write_job(connection: Connection, job_key: JobKey, changes: RowChanges, *, now: datetime, writer: str) -> None:
    """Write changes of one job, inside the transaction of the caller. Rows that somebody removed are made again."""
    for state_type, problem in changes.keep.items():
        _quarantine(connection, job_key, state_type, problem=problem, now=now)
    if changes.deletes:
        connection.execute(
            delete(STATE).where(same_key(connection, STATE.c.job_key, job_key), STATE.c.state_type.in_(changes.deletes))
        )
    if changes.inserts:
        _insert(connection, job_key, changes.inserts, now)
    if changes.updates:
        _update(connection, job_key, changes.updates, now)
    if changes.record is not None:
        if changes.stored.damage is not None:
            _quarantine_own_state(connection, job_key, problem=changes.stored.damage, now=now)
        values = {**changes.record._asdict(), "cluster": cluster_of(job_key), "writer": writer, "updated_at": now}
        _write_record(connection, job_key, values, has_record=changes.stored.record is not None)


def write_jobs(connection: Connection, jobs: Mapping[JobKey, RowChanges], *, now: datetime, writer: str) -> None:
    """Write changes of many jobs, inside the transaction of the caller; what is replaced everywhere with one statement.

    Raises:
        RowError: A row that was to be replaced is not there any more. Nothing may be committed then.
    """
    plain = {job_key: changes for job_key, changes in jobs.items() if changes.only_replaces}
    for job_key, changes in jobs.items():
        if job_key not in plain:
            write_job(connection, job_key, changes, now=now, writer=writer)
    rows = [
        {"key": job_key, "kind": kind.value, "now": now, "text": text}
        for job_key, changes in plain.items()
        for kind, text in changes.updates.items()
    ]
    _replace_all(connection, _state_update(connection.dialect.name), rows)
    records = [
        {"key": job_key, "now": now, "by": writer, "place": cluster_of(job_key), **changes.record._asdict()}
        for job_key, changes in plain.items()
        if changes.record is not None
    ]
    for knows_cluster in (True, False):
        of_kind = [record for record in records if bool(record["place"]) is knows_cluster]
        _replace_all(connection, _record_update(connection.dialect.name, knows_cluster=knows_cluster), of_kind)


def _replace_all(connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows and connection.execute(statement, list(rows)).rowcount != len(rows):
        raise RowError("rows of some jobs are gone: somebody else removed them")


@cache
def _state_update(dialect: str) -> Update:
    """Return what replaces the text of one row, found by ``key`` and ``kind``, by ``text``. Every pass sends it."""
    key: BindParameter[str] = bindparam("key", type_=String())
    condition = same_key_in(dialect, STATE.c.job_key, key)
    changed = update(STATE).where(condition, STATE.c.state_type == bindparam("kind"))
    return changed.values(update_time=bindparam("now"), state_value=bindparam("text"))


@cache
def _record_update(dialect: str, *, knows_cluster: bool) -> Update:
    """Return what replaces our own row of a job. Of a key that names no cluster, somebody may have noted it down."""
    key: BindParameter[str] = bindparam("key", type_=String())
    columns = {"job_id": "job_id", "own_state": "own_state", "writer": "by", "updated_at": "now"}
    columns |= {"cluster": "place"} if knows_cluster else {}
    changed = update(JOBS).where(same_key_in(dialect, JOBS.c.job_key, key))
    return changed.values({column: bindparam(name) for column, name in columns.items()})


def _quarantine(connection: Connection, job_key: JobKey, state_type: str, *, problem: str, now: datetime) -> None:
    """Copy a stored value to the letter before it is replaced. It does not pass through this process."""
    told, at = literal(problem[:_PROBLEM_LENGTH], String), literal(now, DateTime)
    condition = same_key(connection, STATE.c.job_key, job_key)
    original = select(STATE.c.job_key, STATE.c.state_type, STATE.c.state_value, told, at)
    columns = ["job_key", "state_type", "state_value", "problem", "set_aside_at"]
    kept = original.where(condition, STATE.c.state_type == state_type)
    connection.execute(insert(SET_ASIDE).from_select(columns, kept))


def _quarantine_own_state(connection: Connection, job_key: JobKey, *, problem: str, now: datetime) -> None:
    """Do the same with what a job has in our own table."""
    told, at = literal(problem[:_PROBLEM_LENGTH], String), literal(now, DateTime)
    original = select(JOBS.c.job_key, literal(OWN_STATE, String), JOBS.c.own_state, told, at)
    columns = ["job_key", "state_type", "state_value", "problem", "set_aside_at"]
    kept = original.where(same_key(connection, JOBS.c.job_key, job_key), JOBS.c.own_state.is_not(None))
    connection.execute(insert(SET_ASIDE).from_select(columns, kept))


def _insert(connection: Connection, job_key: JobKey, texts: Mapping[StateType, str], now: datetime) -> None:
    connection.execute(
        insert(STATE).inline(),
        [
            {"update_time": now, "job_key": job_key, "state_type": state_type.value, "state_value": text}
            for state_type, text in texts.items()
        ],
    )


def _update(connection: Connection, job_key: JobKey, texts: Mapping[StateType, str], now: datetime) -> None:
    rows = [{"key": job_key, "kind": kind.value, "now": now, "text": text} for kind, text in texts.items()]
    if connection.execute(_state_update(connection.dialect.name), rows).rowcount != len(rows):
        condition = same_key(connection, STATE.c.job_key, job_key)
        present = set(connection.scalars(select(STATE.c.state_type).where(condition)))
        missing = {kind: text for kind, text in texts.items() if kind not in present}
        if missing:
            _insert(connection, job_key, missing, now)


def _write_record(connection: Connection, job_key: JobKey, values: dict[str, Any], *, has_record: bool) -> None:
    if has_record:
        condition = same_key(connection, JOBS.c.job_key, job_key)
        # Of a key that does not name its cluster, somebody may have noted it down.
        known = {name: value for name, value in values.items() if name != "cluster" or value}
        if connection.execute(update(JOBS).where(condition).values(known)).rowcount:
            return
    connection.execute(insert(JOBS).values(job_key=job_key, **values))


def delete_job(connection: Connection, job_key: JobKey) -> None:
    """Delete all rows of a job, but not what was set aside."""
    connection.execute(delete(STATE).where(same_key(connection, STATE.c.job_key, job_key)))
    connection.execute(delete(JOBS).where(same_key(connection, JOBS.c.job_key, job_key)))


def all_job_keys(connection: Connection) -> frozenset[JobKey]:
    """Return the keys of all jobs, also of those that other processes manage."""
    shared = connection.scalars(select(STATE.c.job_key).distinct())
    return frozenset(shared) | frozenset(connection.scalars(select(JOBS.c.job_key)))


def colliding_key(connection: Connection, job_key: JobKey) -> JobKey | None:
    """Return a stored job key that the database takes for the given one although it is another."""
    keys = connection.scalars(select(STATE.c.job_key).where(STATE.c.job_key == job_key).distinct())
    return next((key for key in keys if key != job_key), None)


@dataclass(frozen=True, slots=True)
class QuarantinedValue:
    """A stored value that could not be read and is kept aside.

    Attributes:
        id: Its number in the table.
        problem: Why it was set aside.
        at: When, in the time zone of the tables.
        size: Its length in characters.
    """

    id: int
    job_key: JobKey
    state_type: str
    problem: str
    at: datetime
    size: int


def quarantined_values(database: Database, job_key: JobKey | None = None) -> tuple[QuarantinedValue, ...]:
    """Return the values of one job or of all that were set aside, the oldest first.

    Raises:
        StoreError: The database could not be read.
    """

    def read(connection: Connection) -> tuple[QuarantinedValue, ...]:
        columns = SET_ASIDE.c
        size = func.char_length if connection.dialect.name != "sqlite" else func.length
        rows = select(
            columns.id, columns.job_key, columns.state_type, columns.problem, columns.set_aside_at,
            size(columns.state_value),
        ).order_by(columns.id)  # fmt: skip
        if job_key is not None:
            rows = rows.where(same_key(connection, columns.job_key, job_key))
        return tuple(QuarantinedValue(*row) for row in connection.execute(rows))

    return database.run(read, read_only=True)
