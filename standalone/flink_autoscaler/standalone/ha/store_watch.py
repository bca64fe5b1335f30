"""Whether the database works: said once when it is away and once when it is back, and shown to machines always."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.standalone.observability.logs import masked

log = structlog.get_logger(__name__)

CHECK_INTERVAL: Final = 5.0
RETRY_INTERVAL: Final = 1.0
_STOP_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """What the readiness page shows.

    Attributes:
        up: Whether the store answers.
        error: Why it does not.
    """

    up: bool
    error: str | None = None


WORKING: Final = StoreStatus(up=True)


@dataclass(frozen=True, slots=True)
class Probe:
    """How to find out whether a database works.

    Attributes:
        prepare: Makes sure that the schema can be worked with; done until it works once, before anything else.
        ping: Makes sure that the database answers.
        is_lasting: Tells whether an error of ``prepare`` is one that only a person can end, such as a wrong password.
    """

    prepare: Callable[[], None]
    ping: Callable[[], None]
    is_lasting: Callable[[StoreError], bool] = lambda _: False


class StoreWatch:
    """Looks regularly whether the database works, in a thread of its own. Thread-safe.

    Args:
        probe: Finds out.
        on_hopeless: Told when a database that was away at the start turns out to be unusable once it is there.
        interval: Seconds between looks while it works.
        retry_interval: Seconds between looks while it does not.
    """

    def __init__(
        self,
        probe: Probe,
        *,
        on_hopeless: Callable[[ConfigError], None] = lambda _: None,
        interval: float = CHECK_INTERVAL,
        retry_interval: float = RETRY_INTERVAL,
    ) -> None:
        self._probe = probe
        self._on_hopeless = on_hopeless
        self._intervals = {True: interval, False: retry_interval}
        self._is_prepared = False
        self._error: str | None = "it was not looked at yet"
        self._is_suspicious = False
        self._lost_at: float | None = None
        self._wake = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._keep_looking, name="store-watch", daemon=True)

    def start(self) -> None:
        """Look once, and keep looking in the background.

        Raises:
            ConfigError: The database is there and cannot be used as it is configured.
        """
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

    def is_in_doubt(self) -> bool:
        """Tell whether it does not work, or an error has not been looked into yet."""
        return self._error is not None or self._is_suspicious

    def require_up(self) -> None:
        """Fail at once instead of after a timeout, for every job, while the database is known to be away.

        Raises:
            StoreError: It is.
        """
        error = self._error
        if error is not None:
            raise StoreError(error)

    def suspect(self) -> None:
        """Take note of an error that may mean that the database is away, and look soon."""
        self._is_suspicious = True
        self._wake.set()

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
            self._worked()
        self._is_suspicious = False

    def _look(self) -> None:
        if self._is_prepared:
            self._probe.ping()
            return
        try:
            self._probe.prepare()
        except StoreError as error:
            if self._probe.is_lasting(error):
                raise ConfigError(str(error)) from error
            raise
        self._is_prepared = True

    def _failed(self, error: str) -> None:
        self._error = error
        if self._lost_at is None:
            self._lost_at = time.monotonic()
            log.warning("store_away", error=error, effect="nothing is scaled; metrics are collected in memory")

    def _worked(self) -> None:
        self._error = None
        if self._lost_at is not None:
            log.info("store_back", seconds=round(time.monotonic() - self._lost_at, 3))
            self._lost_at = None

    def _keep_looking(self) -> None:
        while not self._is_stopping:
            self._wake.wait(self._intervals[self._error is None])
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
