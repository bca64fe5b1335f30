"""Sends what waits for one target, in a thread of its own, so that one that hangs holds up nobody else."""

from __future__ import annotations

import json
import math
import random
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

import structlog

from flink_autoscaler.core.border import Border
from flink_autoscaler.core.errors import AutoscalerError, NotLeaderError, StoreError
from flink_autoscaler.core.model.notices import Batch, Notice
from flink_autoscaler.standalone.notifications.targets import NotSentError, Target
from flink_autoscaler.standalone.settings.secrets import masked

log = structlog.get_logger(__name__)

LOOK: Final = 1.0
"""Seconds after which a daemon that does not lead looks whether it does now."""

STORE_PAUSE: Final = 5.0
FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 600.0
_LONGEST_WISH: Final = 3600.0
_IDLE: Final = 60.0
_LEAST: Final = 0.05
_MOST_DOUBLINGS: Final = 20
CLAIM_MARGIN: Final = 60.0
"""Seconds for which a claim lasts beyond the time that sending takes: to note what came of it, also while the database
is away for a moment."""


class Outbox(Protocol):
    """Keeps notices until they are sent. Thread-safe; raises :class:`StoreError` and nothing else."""

    def add(self, notices: Sequence[Notice]) -> None:
        """Keep notices, apart from repetitions within their interval and those that are kept already."""
        ...

    def claim(self, target: str, seconds: float) -> Batch | float:
        """Claim what waits for so many seconds, for nobody else; else return those until there may be something."""
        ...

    def settle(self, claim: str) -> None:
        """Take note that what was claimed was sent, or is given up. Idempotent."""
        ...

    def release(self, claim: str) -> None:
        """Let what was claimed wait again. Idempotent."""
        ...

    def waiting(self, target: str) -> int:
        """Return how many notices of a target are neither sent nor given up."""
        ...

    def expire(self, age: float) -> Mapping[str, int]:
        """Give up what has waited for so many seconds, or is too much; return how many notices that were by target."""
        ...


class Delivery:
    """Sends to one target what waits for it, as long as this daemon may act.

    Args:
        target: Who is told.
        outbox: What waits.
        may_act: Tells whether this daemon leads.
        clock: Seconds of a clock that never goes back, also while the machine is suspended.
        first_pause: Seconds after the first failure; then twice as many, and so on.
        counts: What comes of it is counted there.
    """

    def __init__(
        self,
        target: Target,
        outbox: Outbox,
        *,
        may_act: Callable[[], bool],
        clock: Callable[[], float],
        first_pause: float = FIRST_PAUSE,
        counts: TargetCounts | None = None,
    ) -> None:
        self._target = target
        self._outbox = outbox
        # Twice the timeout: what was begun to be sent just in time has to be over before anybody else begins.
        self._claim_seconds = 2 * target.timeout + CLAIM_MARGIN
        self._may_act = may_act
        self._clock = clock
        self._first_pause = first_pause
        self._counts = counts or TargetCounts()
        self._failures = 0
        self._not_before = -math.inf
        self._unsettled: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=f"notify-{target.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Look soon: something was added. From any thread."""
        self._wake.set()

    def stop(self) -> None:
        """Have it end after the message that is under way. From any thread."""
        self._is_stopping = True
        self._wake.set()

    def join(self, timeout: float) -> None:
        """Wait for the end, so many seconds at most."""
        if self._thread.is_alive():
            self._thread.join(timeout)

    def step(self) -> float:
        """Do what is due; return the seconds until the next step. Never raises."""
        pause = self._not_before - self._clock()
        try:
            self._settle()
            if not self._may_act():
                self._counts.stands_by()
                return LOOK
            self._counts.waits(self._outbox.waiting(self._target.name))
            if pause > 0:
                return pause
            begun = self._clock()
            batch = self._outbox.claim(self._target.name, self._claim_seconds)
        except StoreError as error:
            log.debug("notifications_wait", target=self._target.name, error=masked(str(error)))
            return STORE_PAUSE
        return min(max(batch, _LEAST), _IDLE) if isinstance(batch, float) else self._send(batch, begun)

    def _run(self) -> None:
        while not self._is_stopping:
            with Border() as border:  # whatever a driver raises: who sends must not stop sending
                self._wake.wait(self.step())
                self._wake.clear()
            if border.error is not None:
                log.error("notifications_failed", target=self._target.name, error=masked(str(border.error)))
                self._wake.wait(STORE_PAUSE)
        with Border():
            self._settle()

    def _send(self, batch: Batch, begun: float) -> float:
        """Send what was claimed."""
        if self._failures:
            self._counts.retried()

        def may_send() -> bool:
            return self._may_act() and self._clock() - begun < self._claim_seconds - self._target.timeout

        with Border() as border:
            self._target.send([json.loads(text) for text in batch.texts], may_send)
        if isinstance(border.error, NotLeaderError):
            return self._note(partial(self._outbox.release, batch.claim), LOOK)
        if border.error is None:
            return self._note_sent(batch)
        return self._note_failure(batch, border.error)

    def _note_sent(self, batch: Batch) -> float:
        if self._failures:
            log.info("notifications_sent_again", target=self._target.name, failures=self._failures)
        self._counts.took(len(batch.texts))
        self._failures = 0
        log.debug("notification_sent", target=self._target.name, events=len(batch.texts))
        return self._note(partial(self._outbox.settle, batch.claim), _LEAST)

    def _note_failure(self, batch: Batch, error: AutoscalerError) -> float:
        name, text, events = self._target.name, masked(str(error)), len(batch.texts)
        self._counts.failed()
        if isinstance(error, NotSentError) and error.is_final:
            log.warning("notification_refused", target=name, error=text, events=events, effect="it is given up")
            self._counts.dropped(events)
            return self._note(partial(self._outbox.settle, batch.claim), _LEAST)
        self._failures += 1
        pause = self._pause(error)
        tell = log.warning if self._failures == 1 else log.debug
        tell("notification_not_sent", target=name, error=text, events=events, effect="it is tried again", pause=pause)
        self._not_before = self._clock() + pause
        return self._note(partial(self._outbox.release, batch.claim), pause)

    def _pause(self, error: AutoscalerError) -> float:
        """Return the seconds until the next attempt: twice as many every time, and not the same for all daemons."""
        pause = min(LONGEST_PAUSE, self._first_pause * 2.0 ** min(self._failures - 1, _MOST_DOUBLINGS))
        wish = error.retry_after if isinstance(error, NotSentError) else None
        spread = random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, keeps no secret
        return round(max(pause * spread, min(wish or 0.0, _LONGEST_WISH)), 3)

    def _note(self, note: Callable[[], None], pause: float) -> float:
        """Write down what came of a claim; where the database is away, as soon as it is back."""
        self._unsettled.append(note)
        try:
            self._settle()
        except StoreError as error:
            log.debug("notification_not_noted", target=self._target.name, error=masked(str(error)))
            return STORE_PAUSE
        return pause

    def _settle(self) -> None:
        while self._unsettled:
            self._unsettled[0]()
            self._unsettled.popleft()


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """One target since the start of the daemon. Events are counted one by one, messages hold several.

    Attributes:
        sent: Events that it took.
        failed: Messages that it did not take.
        retried: Messages that were sent again after one that it did not take.
        dropped: Events that it will not be told about: refused, given up, or too many at once.
        waiting: Events that wait for it; None where this daemon does not know, since another one leads.
        failing: Whether it did not take the last message.
    """

    sent: int = 0
    failed: int = 0
    retried: int = 0
    dropped: int = 0
    waiting: int | None = None
    failing: bool = False


class TargetCounts:
    """Counts for one target. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._status = TargetStatus()

    @property
    def status(self) -> TargetStatus:
        """Counts of the delivery."""
        return self._status

    def took(self, events: int) -> None:
        """The target took a message with so many events."""
        with self._lock:
            self._status = replace(self._status, sent=self._status.sent + events, failing=False)

    def failed(self) -> None:
        """The target did not take a message."""
        with self._lock:
            self._status = replace(self._status, failed=self._status.failed + 1, failing=True)

    def retried(self) -> None:
        """A message is sent again."""
        with self._lock:
            self._status = replace(self._status, retried=self._status.retried + 1)

    def dropped(self, events: int) -> None:
        """The target will not be told about so many events."""
        with self._lock:
            self._status = replace(self._status, dropped=self._status.dropped + events)

    def waits(self, events: int) -> None:
        """So many events wait for it."""
        with self._lock:
            self._status = replace(self._status, waiting=events)

    def stands_by(self) -> None:
        """Another daemon sends: it knows what waits, and whether that works."""
        with self._lock:
            self._status = replace(self._status, waiting=None, failing=False)
