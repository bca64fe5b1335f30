"""A state store in a database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import structlog
from sqlalchemy import Connection

from flink_autoscaler.core.border import attempted
from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.stores.sql.database.database import Database, Fence
from flink_autoscaler.stores.sql.database.failures import ConflictError, LeaseLostError, RowError
from flink_autoscaler.stores.sql.state.codec import KINDS, StateType, encode
from flink_autoscaler.stores.sql.state.own_state import own_state, own_state_text
from flink_autoscaler.stores.sql.state.rows import (
    OWN_STATE,
    JobRecord,
    RowChanges,
    StoredJob,
    StoredPart,
    all_job_keys,
    delete_job,
    digest,
    lookalike,
    read_job,
    write_job,
    write_jobs,
)
from flink_autoscaler.stores.sql.state.windows import WindowTexts
from flink_autoscaler.stores.sql.tables import JOB_KEY_LENGTH

log = structlog.get_logger(__name__)

_FAILURE_COUNTS_FOR: Final = 300.0
"""Seconds for which a save that failed tells about the database, where nobody tries it again: its job may not run."""

_MOST_UNWRITTEN: Final = 100
"""Jobs that are gone whose state could not be written, and is kept in case they return."""


JOBS_AT_ONCE: Final = 200
"""Jobs in one transaction: others wait for it, in SQLite all writers and elsewhere those who renew the lease."""


@dataclass(frozen=True, slots=True)
class _View:
    """Known rows of one job.

    Attributes:
        state: What ``load`` returns.
        stored: What the database holds; None when a save failed and it has to be read again.
    """

    state: JobState
    stored: StoredJob | None


class SqlStateStore:
    """Remembers job states in the tables of the Java process, and what has no place there in our own.

    The first access to a job reads all its rows with one statement; they stay in memory. A save writes what differs
    from them, in one transaction; an unchanged state costs nothing. It is assumed that nobody else writes the same
    job, which a ``fence`` makes sure of.

    When a save fails the given state is kept, and the next save writes it, after another look at the rows. Nothing
    grows while the database is away: there is one state per job. When another process turns out to have written the
    job, or the lease is lost, the state in memory is dropped instead, for it is not the truth any more.

    Args:
        database: Where the tables are; not closed with the store.
        fence: Checked first in every transaction that writes.
        writer: Name of this installation, kept with every job.
        clock: Epoch seconds, for ``update_time``.
    """

    def __init__(
        self,
        database: Database,
        *,
        fence: Fence | None = None,
        writer: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._fence = fence
        self._writer = writer
        self._clock = clock
        self._lock = threading.Lock()
        self._views: dict[JobKey, _View] = {}
        self._unwritten: dict[JobKey, None] = {}
        self._generation = 0
        self._reported: set[tuple[JobKey, str]] = set()
        self._set_aside_count = 0
        self._failures: dict[JobKey, tuple[float, StoreError]] = {}
        self._windows = WindowTexts()

    @property
    def set_aside_count(self) -> int:
        """Number of stored values that could not be read, wholly or in part, since the start."""
        return self._set_aside_count

    def write_error(self) -> StoreError | None:
        """Return why states cannot be written at present: what the latest save failed with that is still to be done.

        None where all could be written, or where only a value of the job itself was the cause.
        """
        latest = max(self._failures.copy().values(), key=lambda failure: failure[0], default=None)
        if latest is None or time.monotonic() - latest[0] > _FAILURE_COUNTS_FOR:
            return None
        return latest[1]

    def load(self, job_key: JobKey) -> JobState:
        """Return what was saved last, also when that could not be written yet; else what is in the database.

        Raises:
            StoreError: The job is not known yet and the database cannot be read.
        """
        view = self._views.get(job_key)
        if view is None:
            generation = self._generation
            _check_key(job_key)
            stored = self._database.run(lambda connection: read_job(connection, job_key), read_only=True)
            self._report_problems(job_key, stored)
            view = _View(_state(stored), stored)
            self._remember(job_key, view, generation)
        return view.state

    def save(self, job_key: JobKey, state: JobState) -> None:
        """Replace the state of one job: what differs is written in one transaction.

        Raises:
            StoreError: It could not be written, or that is not sure. Unless somebody else writes this job,
                the state is kept in memory and written with the next save.
        """
        generation = self._generation
        changes = self._change(job_key, state)
        if changes is not None and not changes:
            self._remember(job_key, _View(state, changes.after), generation)
            return
        try:
            _check_key(job_key)
            stored = self._database.run(partial(self._write, job_key, state, changes), fence=self._fence)
        except (ConflictError, LeaseLostError) as error:
            self._drop(job_key)
            raise self._explained(job_key, error) from error
        except StoreError as error:
            self._remember(job_key, _View(state, None), generation)
            self._unwritten.pop(job_key, None)  # it is not gone, or no more
            if not isinstance(error, RowError):
                self._fail(job_key, error, generation)
            raise
        self._failures.pop(job_key, None)
        self._remember(job_key, _View(state, stored), generation)
        self._forget_reports(job_key, stored)

    def save_all(self, states: Mapping[JobKey, JobState]) -> frozenset[JobKey]:
        """Replace the states of many jobs, some hundred in one transaction, and return those that surely were.

        What was not read or written before is left to :meth:`save`, and so are all jobs of a transaction that fails:
        one by one it turns out what the matter is with which of them. Never raises.
        """
        waiting, saved = iter(states.items()), set[JobKey]()
        while batch := dict(islice(waiting, JOBS_AT_ONCE)):
            try:
                saved |= self._save_batch(batch)
            except (ConflictError, LeaseLostError, RowError) as error:
                log.debug("states_not_saved_together", error=str(error))  # nothing was written
            except StoreError as error:
                log.debug("states_not_saved_together", error=str(error))
                break  # it may be away, and would be waited for again and again
        return frozenset(saved)

    def delete(self, job_key: JobKey) -> None:
        """Forget one job.

        Raises:
            StoreError: It is still there, or that is not sure; to be tried again.
        """
        _check_key(job_key)
        self._drop(job_key)
        self.release(job_key)
        self._database.run(lambda connection: delete_job(connection, job_key), fence=self._fence)

    def release(self, job_key: JobKey) -> None:
        """Free the memory of a job that is gone; of those whose state could not be written the last few are kept.

        That it could not be written tells nothing about the database any more: nobody is going to try it again.
        """
        self._failures.pop(job_key, None)
        self._windows.forget(job_key)
        with self._lock:
            if self._is_unwritten(job_key):
                self._keep_unwritten(job_key)
            else:
                self._views.pop(job_key, None)
            self._reported = {reported for reported in self._reported if reported[0] != job_key}

    def job_keys(self) -> frozenset[JobKey]:
        """Return the keys of all jobs in the database, whoever wrote them, and of those not written yet.

        Raises:
            StoreError: The database cannot be read.
        """
        pending = {job_key for job_key, view in self._views.copy().items() if view.stored is None}
        return self._database.run(all_job_keys, read_only=True) | pending

    def forget(self) -> None:
        """Drop everything in memory, also what could not be written; the next access reads the database again.

        That it could not be written tells nothing any more: somebody else writes these jobs now.
        """
        with self._lock:
            self._generation += 1
            self._views, self._unwritten, self._failures = {}, {}, {}
            self._reported = set()
        self._windows.clear()

    def close(self) -> None:
        """Release nothing: everything saved is in the database, which belongs to somebody else."""

    def _is_unwritten(self, job_key: JobKey) -> bool:
        view = self._views.get(job_key)
        return view is not None and view.stored is None

    def _keep_unwritten(self, job_key: JobKey) -> None:
        """Keep the state of one more job that is gone, and let go of the first of too many."""
        self._unwritten = {key: None for key in (*self._unwritten, job_key) if self._is_unwritten(key)}
        for oldest in list(self._unwritten)[:-_MOST_UNWRITTEN]:
            del self._unwritten[oldest], self._views[oldest]

    def _save_batch(self, states: Mapping[JobKey, JobState]) -> frozenset[JobKey]:
        """Save the states of jobs whose rows are known, but for those that cannot be written as text.

        Raises:
            StoreError: None was saved, or nobody knows.
        """
        generation = self._generation
        found = {job_key: attempted(partial(self._change, job_key, state)) for job_key, state in states.items()}
        changes = {job_key: change for job_key, change in found.items() if isinstance(change, RowChanges)}
        written = {job_key: change for job_key, change in changes.items() if change}
        try:
            if written:
                self._database.run(partial(self._write_all, written), fence=self._fence)
        except (ConflictError, LeaseLostError, RowError):
            raise
        except StoreError:
            for job_key in written:  # whether they were written is not known
                self._remember(job_key, _View(states[job_key], None), generation)
            raise
        for job_key, change in changes.items():
            self._failures.pop(job_key, None)
            self._remember(job_key, _View(states[job_key], change.after), generation)
            self._forget_reports(job_key, change.after)
        return frozenset(changes)

    def _change(self, job_key: JobKey, state: JobState) -> RowChanges | None:
        """Return what differs from what is stored; None where that is not known."""
        view = self._views.get(job_key)
        return None if view is None or view.stored is None else self._changes(job_key, view.stored, state)

    def _write_all(self, changes: Mapping[JobKey, RowChanges], connection: Connection) -> None:
        now = self._database.local_time(self._clock())
        write_jobs(connection, changes, now=now, writer=self._writer)

    def _remember(self, job_key: JobKey, view: _View, generation: int) -> None:
        """Keep a view, unless everything was forgotten while it was made."""
        with self._lock:
            if generation == self._generation:
                self._views[job_key] = view

    def _fail(self, job_key: JobKey, error: StoreError, generation: int) -> None:
        """Keep why a save failed, unless everything was forgotten meanwhile."""
        with self._lock:
            if generation == self._generation:
                self._failures[job_key] = (time.monotonic(), error)

    def _drop(self, job_key: JobKey) -> None:
        self._failures.pop(job_key, None)
        with self._lock:
            self._views.pop(job_key, None)

    def _write(self, job_key: JobKey, state: JobState, changes: RowChanges | None, connection: Connection) -> StoredJob:
        """Write what differs, and return what is stored then. Runs again after a deadlock, hence keeps nothing."""
        if changes is None:
            stored = read_job(connection, job_key)
            self._report_problems(job_key, stored)
            changes = self._changes(job_key, stored, state)
        if changes:
            now = self._database.local_time(self._clock())
            write_job(connection, job_key, changes, now=now, writer=self._writer)
        return changes.after

    def _changes(self, job_key: JobKey, stored: StoredJob, state: JobState) -> RowChanges:
        """Return what has to be written so that the database holds a state."""
        changes = RowChanges(stored)
        for state_type, kind in KINDS.items():
            _compare(changes, state_type, getattr(state, kind.name), partial(self._text, job_key))
        record = JobRecord(state.job_id, own_state_text(state))
        is_new = stored.record is None and (changes.parts or record != JobRecord(None, None))
        if is_new or (stored.record is not None and record != stored.record):
            changes.record = record
        return changes

    def _text(self, job_key: JobKey, state_type: StateType, part: Any) -> str | None:
        if state_type is StateType.COLLECTED_METRICS and part:
            return self._windows.write(job_key, part)
        return encode(state_type, part)

    def _explained(self, job_key: JobKey, error: StoreError) -> StoreError:
        """Say so when the conflict is with another job, whose key is the same to the database."""
        if isinstance(error, LeaseLostError):
            return error
        try:
            other = self._database.run(lambda connection: lookalike(connection, job_key), read_only=True)
        except StoreError:
            return error
        if other is None:
            return error
        return StoreError(
            f"{self._database.name}: job keys '{job_key}' and '{other}' are the same to this table, which ignores "
            "case: give its column job_key a binary collation such as utf8mb4_bin, or rename one of the jobs"
        )

    def _report_problems(self, job_key: JobKey, stored: StoredJob) -> None:
        """Log and count what cannot be read, once."""
        for state_type, problem in _problems(stored).items():
            with self._lock:
                if problem is None or (job_key, state_type) in self._reported:
                    continue
                self._reported.add((job_key, state_type))
                self._set_aside_count += 1
            log.warning("state_set_aside", job_key=job_key, state_type=state_type, problem=problem)

    def _forget_reports(self, job_key: JobKey, stored: StoredJob) -> None:
        """Report again when a value that was replaced becomes unreadable once more."""
        if not self._reported:
            return
        with self._lock:
            replaced = {state_type for state_type, problem in _problems(stored).items() if problem is None}
            self._reported -= {(job_key, state_type) for state_type in replaced}


def _problems(stored: StoredJob) -> dict[str, str | None]:
    """Return what is wrong with each value of a job; None where nothing is."""
    return {**{kind.value: part.problem for kind, part in stored.parts.items()}, OWN_STATE: stored.damage}


def _check_key(job_key: JobKey) -> None:
    """Refuse what would be refused, cut off or changed by one of the databases."""
    if len(job_key) > JOB_KEY_LENGTH:
        raise RowError(f"job key '{job_key[:40]}...' has {len(job_key)} characters; at most {JOB_KEY_LENGTH} fit")
    if "\0" in job_key or any("\ud800" <= character <= "\udfff" for character in job_key):
        raise RowError(f"job key {job_key!a} has characters that cannot be stored")


def _state(stored: StoredJob) -> JobState:
    parts: dict[str, Any] = {KINDS[state_type].name: part.part for state_type, part in stored.parts.items()}
    if stored.record is not None:
        own = own_state(stored.record.own_state, parts.get("samples", ()))
        parts |= {"job_id": stored.record.job_id, **own._asdict()}
    return JobState(**parts) if parts else EMPTY_STATE


def _compare(
    changes: RowChanges, state_type: StateType, part: Any, write: Callable[[StateType, Any], str | None]
) -> None:
    """Add what has to be done about one kind of state."""
    old = changes.stored.parts.get(state_type)
    if old is not None and old.digest and (part is old.part or part == old.part == KINDS[state_type].empty):
        changes.parts[state_type] = old
        return
    text = write(state_type, part)
    new_digest = b"" if text is None else digest(text)
    if old is not None and text is not None and new_digest == old.digest:
        changes.parts[state_type] = StoredPart(part, old.digest, old.problem)
        return
    if old is not None and old.problem is not None:
        changes.keep[state_type] = old.problem
    if text is not None:
        (changes.inserts if old is None else changes.updates)[state_type] = text
        changes.parts[state_type] = StoredPart(part, new_digest)
    elif old is not None:
        changes.deletes.append(state_type)
