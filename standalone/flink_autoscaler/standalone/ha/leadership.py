"""Leadership among several daemons: one acts, the others stand by with warm caches.

That two never act at the same time rests on three things. *Clocks*: the database alone decides who may take the lease,
and a holder stops by a clock of its own, before the database lets anybody else in. *Terms*: whatever a pass does is
bound to the token under which the pass began, so that a pass that was paused does not go on under a later token.
*Fencing*: every transaction that writes checks the token while it locks the row, so that what slips through between
a look and the deed changes no state.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import structlog

from flink_autoscaler.core.autoscaler import ALWAYS
from flink_autoscaler.core.errors import NotLeaderError, StoreError
from flink_autoscaler.core.model.events import Event, ScalingReport
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import (
    NO_TERMS,
    AutoScalerEventHandler,
    Realization,
    RealizationTerms,
    ScalingRealizer,
)
from flink_autoscaler.standalone.settings.secrets import mask_secrets

if TYPE_CHECKING:
    from flink_autoscaler.stores.sql.lease import Lease

log = structlog.get_logger(__name__)

RENEWALS: Final = 3
"""Renewals within the time to live: two in a row may fail."""

_MAX_POLL_INTERVAL: Final = 1.0
_MIN_POLL_INTERVAL: Final = 0.05
_POLLS_PER_TTL: Final = 30
"""A daemon that waits looks so often within the time to live, at least every second: a lease that was given up is
taken at once."""

_STOP_TIMEOUT: Final = 5.0
# A context variable, not a thread local: a worker's coroutines run in another thread, and have to act under its term.
_TERM: ContextVar[int | None] = ContextVar("term", default=None)


class LeadershipState(StrEnum):
    """Role of a daemon among those that share its clusters."""

    LEADER = "leader"
    STANDBY = "standby"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LeadershipStatus:
    """Leadership, as the readiness page shows it.

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


class Leadership:
    """Tells passes whether they may act. This one is of a daemon that is alone: it always may. Thread-safe."""

    def term(self) -> int | None:
        """Return the term under which this daemon acts as far as it knows; None when it only looks on."""
        return ALWAYS

    def holds(self, term: int) -> bool:
        """Tell whether this daemon still acts under a term, as far as it knows."""
        return term == self.term()

    def bound_to_term(self, term: int) -> AbstractContextManager[None]:
        """Bind what the calling thread does to a term: it is refused as soon as another one has begun."""
        del term
        return nullcontext()

    def is_leader(self, seconds: float = 0.0) -> bool:
        """Tell whether something that takes so many seconds may be begun now."""
        del seconds
        return True

    def start(self) -> None:
        """Begin to lead, or to wait for that."""

    def stop(self, *, is_idle: bool = True) -> None:
        """Let another daemon take over: at once, or later where passes are still under way."""

    def status(self) -> LeadershipStatus | None:
        """Return what the readiness page shows; None where there is only one daemon."""
        return None


class LeaseLeadership(Leadership):
    """Leads while it holds a lease, and takes it when it is free, in a thread of its own.

    Args:
        lease: Used by this thread alone, apart from looking at it.
        ttl: Seconds that the lease lasts.
    """

    def __init__(self, lease: Lease, *, ttl: float) -> None:
        self._lease = lease
        self._ttl = ttl
        self._error: str | None = None
        self._is_known = False
        self._logged_state: LeadershipState | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leadership", daemon=True)

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
        # The thread first: a renewal that is on its way would make a lease last that was just given up.
        if self._thread.is_alive():
            self._thread.join(_STOP_TIMEOUT)
        token = self._lease.token
        # Work that is under way may still send a PUT. Whoever took the lease now would act beside it; until the lease
        # has run out, nobody can.
        if token is None or not is_idle:
            return
        try:
            self._lease.release()
            log.info("lease_released", term=token)
        except StoreError as error:
            log.warning("lease_not_released", error=mask_secrets(str(error)), ttl=self._ttl)

    def term(self) -> int | None:
        """Return the token of the lease, until it is known to be lost."""
        return self._lease.token

    @contextmanager
    def bound_to_term(self, term: int) -> Iterator[None]:
        """Bind what the calling thread does, and what it has an event loop do, to a term."""
        binding = _TERM.set(term)
        try:
            yield
        finally:
            _TERM.reset(binding)

    def bound_term(self) -> int | None:
        """Return the term that the calling thread is bound to, else the present one."""
        bound = _TERM.get()
        # Only work of a pass is bound. Falling back to the present token for a pass would let one that outlived its
        # term write under the next one, with a state that it read before somebody else wrote.
        return self._lease.token if bound is None else bound

    def is_leader(self, seconds: float = 0.0) -> bool:
        """Tell whether the lease surely lasts that long, and is of the term that the caller is bound to."""
        # Read once: the lease may be lost and taken again, under another token, between two looks at it.
        token = self._lease.token
        # The token alone is not enough: it stays after the time has run out, since a renewal may still succeed when
        # nobody else took the lease. Nor is the time alone, which may be that of a later term. The seconds are there
        # so that a request that is sent now is over before anybody else begins.
        return token is not None and token == self.bound_term() and self._lease.remaining() > seconds

    def state(self) -> LeadershipState:
        """Return what this daemon is at this moment."""
        if self.is_leader():
            return LeadershipState.LEADER
        # With a token and no time left nobody knows who leads: it is this daemon again if its next renewal succeeds.
        is_standby = self._lease.token is None and self._is_known
        return LeadershipState.STANDBY if is_standby else LeadershipState.UNKNOWN

    def status(self) -> LeadershipStatus:
        """Return what the readiness page shows."""
        remaining = round(self._lease.remaining(), 3)
        return LeadershipStatus(self.state(), self._lease.holder, remaining, self._error)

    def step(self) -> None:
        """Renew the lease, or take it if it is free. Never raises."""
        try:
            # A renewal that fails has dropped the token; taking the lease anew gives another one. Work of the old term
            # is refused from then on, although this process leads again: somebody may have written in between.
            if self._lease.token is None or not self._lease.renew():
                self._lease.acquire()
            self._error, self._is_known = None, True
        except StoreError as error:
            # The token stays: whether the renewal arrived is not known, and time runs out by itself if it did not.
            self._error, self._is_known = mask_secrets(str(error)), False
        except Exception as error:
            # Whatever a driver raises: without this thread nobody would ever lead again.
            self._error, self._is_known = f"{type(error).__name__}: {mask_secrets(str(error))}", False
        self._log_transition()

    def next_delay(self) -> float:
        """Return the seconds until the next step."""
        if self._error is None and self._lease.token is not None:
            return self._ttl / RENEWALS
        # A leader that failed to renew hurries as well: a third of its time is gone, and the database may be back.
        return min(_MAX_POLL_INTERVAL, max(_MIN_POLL_INTERVAL, self._ttl / _POLLS_PER_TTL))

    def _run(self) -> None:
        while not self._stopping.wait(self.next_delay()):
            self.step()

    def _log_transition(self) -> None:
        before, now = self._logged_state, self.state()
        if now is before:
            return
        self._logged_state = now
        if now is LeadershipState.LEADER:
            log.info("leadership_gained", term=self._lease.token)
        elif before is LeadershipState.LEADER:
            log.warning("leadership_lost", standing=now.value, holder=self._lease.holder, error=self._error)
        elif now is LeadershipState.STANDBY:
            log.info("standby", holder=self._lease.holder)
        else:
            log.warning("leadership_unknown", error=self._error)


class LeaderOnlyRealizer:
    """Realizes while this daemon leads (a ``ScalingRealizer``).

    The transport looks once more, immediately before it sends a PUT. This guard is for realizers that act by other
    means, and saves the requests before the PUT.
    """

    def __init__(self, realizer: ScalingRealizer, leadership: Leadership) -> None:
        self._realizer = realizer
        self._leadership = leadership

    def realize_overrides(
        self, context: JobAutoScalerContext, overrides: Mapping[VertexId, int], *, terms: RealizationTerms = NO_TERMS
    ) -> Realization:
        """Give every named vertex its parallelism. May raise :class:`NotLeaderError`; nothing was done then."""
        self._check(context)
        return self._realizer.realize_overrides(context, overrides, terms=terms)

    def realize_config(self, context: JobAutoScalerContext, changes: ConfigChanges) -> Realization:
        """Apply tuned configuration. May raise :class:`NotLeaderError`; nothing was done then."""
        self._check(context)
        return self._realizer.realize_config(context, changes)

    def close(self) -> None:
        """Release the realizer's resources."""
        self._realizer.close()

    def _check(self, context: JobAutoScalerContext) -> None:
        # By the time of a whole request: one that is sent at the last moment must not arrive under another leader.
        if not self._leadership.is_leader(context.endpoint.timeout):
            raise NotLeaderError(f"{context.job_key} is not rescaled: this daemon may not be the leader any more")


class LeaderOnlyEventHandler:
    """Tells while this daemon leads, else nothing: the leader tells (an ``AutoScalerEventHandler``)."""

    def __init__(self, handler: AutoScalerEventHandler, leadership: Leadership) -> None:
        self._handler = handler
        self._leadership = leadership

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Take one event."""
        if self._leadership.is_leader():
            self._handler.handle_event(context, event)

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Take one report."""
        if self._leadership.is_leader():
            self._handler.handle_scaling_report(context, report)

    def close(self) -> None:
        """Release the handler's resources."""
        self._handler.close()
