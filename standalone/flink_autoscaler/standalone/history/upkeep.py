"""The compaction of a running daemon's history, and what is told about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog

from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.pipeline.history.compact import LockedError, Maintained, Upkeep, maintain
from flink_autoscaler.pipeline.history.files import MissingHistoryError
from flink_autoscaler.pipeline.history.storage import HistoryStorage
from flink_autoscaler.standalone.settings.secrets import masked

log = structlog.get_logger(__name__)

_SHOWN_PROBLEMS: Final = 3
_PROGRESS_SECONDS: Final = 30.0

Tell = Callable[[Event], None]
"""Takes an event about the history; never raises."""


def unheard_event(_event: Event) -> None:
    """Take an event that nobody wants to see."""


def _compacted_event(done: Maintained, seconds: float) -> Event:
    """Make the event for a compaction that did something."""
    text = f"{done.before} files became {done.after}, {done.expired} days removed, in {seconds:.1f} s"
    return Event(EventType.NORMAL, "HistoryCompacted", text)


def failed_event(error: Exception) -> Event:
    """Make the event for a compaction that failed."""
    return Event(EventType.WARNING, "HistoryCompactionFailed", masked(str(error)) or type(error).__name__)


def keep_in_order(storage: HistoryStorage, upkeep: Upkeep) -> Maintained | None:
    """Compact a history and remove what is too old; None where there is none, or another process does it."""
    try:
        return maintain(storage, upkeep, _Heard())
    except MissingHistoryError:
        return None  # nothing was written yet
    except LockedError as error:
        log.debug("history_locked", error=str(error))
        return None


class _Heard:
    """Tells how far a long compaction is."""

    def __init__(self) -> None:
        self._told_at = time.monotonic()

    def __call__(self, done: int, of: int) -> None:
        if time.monotonic() - self._told_at >= _PROGRESS_SECONDS:
            self._told_at = time.monotonic()
            log.info("history_compacting", folders_done=done, folders=of)


def report(done: Maintained, seconds: float, tell: Tell) -> None:
    """Say what was done, where anything was."""
    if done.damaged:
        log.warning("history_files_damaged", files=len(done.damaged), problems=done.damaged[:_SHOWN_PROBLEMS])
    if done.before or done.expired or done.leftovers:
        log.info(
            "history_compacted",
            files_before=done.before,
            files_after=done.after,
            days_removed=done.expired,
            leftovers=done.leftovers,
            seconds=round(seconds, 3),
        )
        tell(_compacted_event(done, seconds))
