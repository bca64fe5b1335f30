"""Which of several daemons acts: one leads, the others stand by with warm caches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

import structlog

from flink_autoscaler.core.autoscaler import ALWAYS
from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.standalone.observability.logs import masked

log = structlog.get_logger(__name__)

RENEWALS: Final = 3
"""Renewals within the time to live: two in a row may fail."""

_LONGEST_LOOK: Final = 1.0
_SHORTEST_LOOK: Final = 0.05
_LOOKS: Final = 30
"""A daemon that waits looks so often within the time to live, at least every second: a lease that was given up is
taken at once."""

_STOP_TIMEOUT: Final = 5.0
_TERM: ContextVar[int | None] = ContextVar("term", default=None)


class LeadershipState(StrEnum):
    """What a daemon is among those that share its clusters."""

    LEADER = "leader"
    STANDBY = "standby"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LeadershipStatus:
    """What the readiness page shows.

    Attributes:
        standing: Of this daemon.
        holder: Who was found to hold the lease; None when nobody was.
        remaining_seconds: For which this daemon may still act without a renewal.
        error: Why the lease could not be asked for or renewed; None when it could.
    """

    standing: LeadershipState
    holder: str | None
    remaining_seconds: float
    error: str | None


class Leadership(Protocol):
    """Tells passes whether they may act. Thread-safe."""

    def term(self) -> int | None:
        """Return the term under which this daemon acts as far as it knows; None when it only looks on."""
        ...

    def acting(self, term: int) -> AbstractContextManager[None]:
        """Bind what the calling thread does to a term: it is refused as soon as another one has begun."""
        ...

    def may_act(self, seconds: float = 0.0) -> bool:
        """Tell whether something that takes so many seconds may be begun now."""
        ...


class SoleLeader:
    """The leadership of a daemon that is the only one."""

    def term(self) -> int | None:
        """Return the only term there is."""
        return ALWAYS

    def acting(self, term: int) -> AbstractContextManager[None]:
        """Bind nothing."""
        del term
        return nullcontext()

    def may_act(self, seconds: float = 0.0) -> bool:
        """Tell that it may."""
        del seconds
        return True


class TokenLease(Protocol):
    """A lease with growing tokens, such as :class:`flink_autoscaler.stores.sql.lease.Lease`."""

    @property
    def token(self) -> int | None:
        """The token of this process; None once it is known to be lost."""
        ...

    @property
    def holder(self) -> str | None:
        """Who was found to hold it."""
        ...

    def remaining(self) -> float:
        """Return the seconds for which this process may rely on it."""
        ...

    def acquire(self) -> bool:
        """Take it if it is free. May raise :class:`StoreError`."""
        ...

    def renew(self) -> bool:
        """Make it last, and tell whether it was still there. May raise :class:`StoreError`."""
        ...

    def release(self) -> None:
        """Give it up. May raise :class:`StoreError`."""
        ...


class LeaseLeadership:
    """Leads while it holds a lease, and takes it when it is free, in a thread of its own.

    Args:
        lease: Used by this thread alone, apart from looking at it.
        ttl: Seconds that the lease lasts.
    """

    def __init__(self, lease: TokenLease, *, ttl: float) -> None:
        self._lease = lease
        self._ttl = ttl
        self._error: str | None = None
        self._is_known = False
        self._told: LeadershipState | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_up, name="leadership", daemon=True)

    def start(self) -> None:
        """Try once to become the leader, and keep trying in the background."""
        self.step()
        self._thread.start()

    def stop(self, *, is_idle: bool = True) -> None:
        """End the thread and give the lease up. A daemon that is still at work lets it run out instead.

        Args:
            is_idle: Whether no pass is under way any more.
        """
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_TIMEOUT)
        token = self._lease.token
        if token is None or not is_idle:
            return
        try:
            self._lease.release()
            log.info("lease_released", term=token)
        except StoreError as error:
            log.warning("lease_not_released", error=masked(str(error)), ttl=self._ttl)

    def term(self) -> int | None:
        """Return the token of the lease, until it is known to be lost."""
        return self._lease.token

    @contextmanager
    def acting(self, term: int) -> Iterator[None]:
        """Bind what the calling thread does, and what it has an event loop do, to a term."""
        binding = _TERM.set(term)
        try:
            yield
        finally:
            _TERM.reset(binding)

    def acting_term(self) -> int | None:
        """Return the term that the calling thread is bound to, else the present one."""
        bound = _TERM.get()
        return self._lease.token if bound is None else bound

    def may_act(self, seconds: float = 0.0) -> bool:
        """Tell whether the lease surely lasts that long, and is of the term that the caller is bound to."""
        token = self._lease.token
        return token is not None and token == self.acting_term() and self._lease.remaining() > seconds

    def standing(self) -> LeadershipState:
        """Return what this daemon is at this moment."""
        if self.may_act():
            return LeadershipState.LEADER
        is_standby = self._lease.token is None and self._is_known
        return LeadershipState.STANDBY if is_standby else LeadershipState.UNKNOWN

    def status(self) -> LeadershipStatus:
        """Return what the readiness page shows."""
        remaining = round(self._lease.remaining(), 3)
        return LeadershipStatus(self.standing(), self._lease.holder, remaining, self._error)

    def step(self) -> None:
        """Renew the lease, or take it if it is free. Never raises."""
        try:
            if self._lease.token is None or not self._lease.renew():
                self._lease.acquire()
            self._error, self._is_known = None, True
        except StoreError as error:
            self._error, self._is_known = masked(str(error)), False
        except Exception as error:
            # Whatever a driver raises: without this thread nobody would ever lead again.
            self._error, self._is_known = f"{type(error).__name__}: {masked(str(error))}", False
        self._tell()

    def pause(self) -> float:
        """Return the seconds until the next step."""
        if self._error is None and self._lease.token is not None:
            return self._ttl / RENEWALS
        return min(_LONGEST_LOOK, max(_SHORTEST_LOOK, self._ttl / _LOOKS))

    def _keep_up(self) -> None:
        while not self._stopping.wait(self.pause()):
            self.step()

    def _tell(self) -> None:
        before, now = self._told, self.standing()
        if now is before:
            return
        self._told = now
        if now is LeadershipState.LEADER:
            log.info("leadership_gained", term=self._lease.token)
        elif before is LeadershipState.LEADER:
            log.warning("leadership_lost", standing=now.value, holder=self._lease.holder, error=self._error)
        elif now is LeadershipState.STANDBY:
            log.info("standing_by", holder=self._lease.holder)
        else:
            log.warning("leadership_unknown", error=self._error)
