"""Health of the database, and wrappers that fail at once while it does not work.

Whether it works is said once when it is away and once when it is back, and shown to machines always.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar, cast

import structlog

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.ports.deployment import (
    AutoScalerStateStore,
    BatchingStateStore,
    ReleasingStateStore,
    SharedStateStore,
)
from flink_autoscaler.standalone.settings.secrets import masked

log = structlog.get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

CHECK_INTERVAL: Final = 5.0
RETRY_INTERVAL: Final = 1.0
_STOP_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Health of the store with the problem, as the readiness page shows it."""

    up: bool
    error: str | None = None


WORKING: Final = StoreStatus(up=True)


class StoreWatch:
    """Looks regularly whether the database works, in a thread of its own. Thread-safe.

    Args:
        prepare: Makes sure that the schema can be worked with; done until it works once, before anything else.
        ping: Makes sure that the database answers, and takes what is to be kept.
        write_error: Tells why what was to be kept last could not be; None when it could.
        is_lasting: Tells whether an error of ``prepare`` is one that only a person can end, such as a wrong password.
        interval: Seconds between looks while it works.
        retry_interval: Seconds between looks while it does not.
    """

    def __init__(
        self,
        prepare: Callable[[], None],
        ping: Callable[[], None],
        *,
        write_error: Callable[[], StoreError | None] = lambda: None,
        is_lasting: Callable[[StoreError], bool] = lambda _: False,
        interval: float = CHECK_INTERVAL,
        retry_interval: float = RETRY_INTERVAL,
    ) -> None:
        self._prepare = prepare
        self._ping = ping
        self._write_error = write_error
        self._is_lasting = is_lasting
        self._on_hopeless: Callable[[ConfigError], None] = lambda _: None
        self._intervals = {True: interval, False: retry_interval}
        self._is_prepared = False
        self._error: str | None = "it was not looked at yet"
        self._is_tried = False
        self._is_suspicious = False
        self._lost_at: float | None = None
        self._back_at = -math.inf
        self._wake = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._keep_looking, name="store-watch", daemon=True)

    def start(self, on_hopeless: Callable[[ConfigError], None]) -> None:
        """Look once, and keep looking in the background.

        Args:
            on_hopeless: Told when a database that is away now turns out to be unusable once it is there.

        Raises:
            ConfigError: The database is there and cannot be used as it is configured.
        """
        self._on_hopeless = on_hopeless
        self.check()
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._is_stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_TIMEOUT)

    def status(self) -> StoreStatus:
        """Return what was found out last."""
        return WORKING if self._error is None else StoreStatus(up=False, error=self._error)

    def is_in_doubt(self, since: float = math.inf) -> bool:
        """Tell whether it does not work, or an error has not been looked into yet.

        Args:
            since: Or whether it was away at any time from then on, in seconds of ``time.monotonic``.
        """
        # In this order: who finds no error any more finds the instant at which it ended.
        return self._error is not None or self._is_suspicious or self._back_at >= since

    def require_up(self) -> None:
        """Fail at once instead of after a timeout, for every job, while the database is known to be away.

        One that answers and did not take what was to be kept last, as on a full disk, is tried: only what is really
        written shows that it does again.

        Raises:
            StoreError: It is away.
        """
        error = self._error
        if error is not None and not self._is_tried:
            raise StoreError(error)

    def suspect(self) -> None:
        """Take note of an error that may mean that the database is away, and look soon."""
        self._is_suspicious = True
        self._wake.set()

    def call(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something with the database; its errors are looked into.

        Raises:
            StoreError: The database is known to be away, and nothing was tried; or the work failed.
        """
        self.require_up()
        return self.attempt(work, *args, **kwargs)

    def attempt(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something that may not need the database, so also while it is away; errors are looked into."""
        try:
            return work(*args, **kwargs)
        except StoreError:
            self.suspect()
            raise

    def check(self) -> None:
        """Look now.

        Raises:
            ConfigError: The database is there and cannot be used as it is configured.
        """
        try:
            self._look()
        except StoreError as error:
            self._failed(masked(str(error)))
        else:
            self._answered()
        self._is_suspicious = False

    def _answered(self) -> None:
        refusal = self._write_error()
        if refusal is None:
            self._worked()
        else:
            self._failed(masked(str(refusal)), is_tried=True)

    def _look(self) -> None:
        if not self._is_prepared:
            try:
                self._prepare()
            except StoreError as error:
                if self._is_lasting(error):
                    raise ConfigError(str(error)) from error
                raise
            self._is_prepared = True
        self._ping()

    def _failed(self, error: str, *, is_tried: bool = False) -> None:
        self._error, self._is_tried = error, is_tried
        if self._lost_at is None:
            self._lost_at = time.monotonic()
            log.warning("store_away", error=error, effect="nothing is scaled; metrics are collected in memory")

    def _worked(self) -> None:
        if self._lost_at is not None:
            self._back_at = time.monotonic()
        self._error = None
        if self._lost_at is not None:
            log.info("store_back", seconds=round(self._back_at - self._lost_at, 3))
            self._lost_at = None

    def _keep_looking(self) -> None:
        while not self._is_stopping:
            self._wake.wait(self._intervals[self._error is None])
            # Before the look: a suspicion that comes during it is about what the look may not have seen.
            self._wake.clear()
            if self._is_stopping:
                return
            try:
                self.check()
            except ConfigError as error:
                self._on_hopeless(error)
                return
            except Exception as error:
                # Whatever a driver raises: who looks must not stop looking.
                self._failed(f"{type(error).__name__}: {masked(str(error))}")


class _Watched:
    """Has every method of a part of the database, each called as :meth:`StoreWatch.call` does."""

    def __init__(self, part: object, watch: StoreWatch) -> None:
        self._part = part
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._part, name)
        return method if name == "close" else partial(self._watch.call, method)


def watched(part: T, watch: StoreWatch) -> T:
    """Return an event handler or order book that fails at once while its database is away."""
    return cast("T", _Watched(part, watch))


class WatchedStore:
    """A state store that fails at once while its database is away, but for what it has in memory."""

    def __init__(self, store: AutoScalerStateStore, watch: StoreWatch) -> None:
        self._store = store
        self._watch = watch
        self._in_memory: set[JobKey] = set()

    def load(self, job_key: JobKey) -> JobState:
        """Return what was saved last. While the database is away, that is in memory or not to be had."""
        load = self._watch.attempt if job_key in self._in_memory else self._watch.call
        state = load(self._store.load, job_key)
        self._in_memory.add(job_key)
        return state

    def save(self, job_key: JobKey, state: JobState) -> None:
        """Replace the state of one job."""
        self._watch.call(self._store.save, job_key, state)

    def save_all(self, states: Mapping[JobKey, JobState]) -> frozenset[JobKey]:
        """Replace the states of many jobs, where the store can and its database works."""
        if not isinstance(self._store, BatchingStateStore) or self._watch.is_in_doubt():
            return frozenset()
        return self._store.save_all(states)

    def delete(self, job_key: JobKey) -> None:
        """Forget one job."""
        self._watch.require_up()
        self._in_memory.discard(job_key)
        self._watch.attempt(self._store.delete, job_key)

    def release(self, job_key: JobKey) -> None:
        """Free the memory of a job, where the store can."""
        self._in_memory.discard(job_key)
        if isinstance(self._store, ReleasingStateStore):
            self._store.release(job_key)

    def job_keys(self) -> frozenset[JobKey]:
        """Return the keys of all jobs with a state."""
        return self._watch.call(self._store.job_keys)

    def forget(self) -> None:
        """Drop what is kept in memory, where the store can."""
        self._in_memory.clear()
        if isinstance(self._store, SharedStateStore):
            self._store.forget()

    def close(self) -> None:
        """Release the store's resources."""
        self._store.close()
