"""Compaction and retention as the daemon does them, told in the log."""

from __future__ import annotations

from typing import Final

import structlog

from flink_autoscaler.pipeline.history.catalog import unheard
from flink_autoscaler.pipeline.history.compact import LockedError, Maintained, Upkeep, maintain
from flink_autoscaler.pipeline.history.files import MissingHistoryError
from flink_autoscaler.pipeline.history.storage import HistoryStorage

log = structlog.get_logger(__name__)

_SHOWN_PROBLEMS: Final = 3


def keep_in_order(storage: HistoryStorage, upkeep: Upkeep) -> None:
    """Compact a history and remove what is too old; nothing where there is none, or another process does it.

    Raises:
        HistoryError: It cannot be read or written.
    """
    try:
        done = maintain(storage, upkeep, unheard)
    except MissingHistoryError:
        return  # nothing was written yet
    except LockedError as error:
        log.debug("history_locked", error=str(error))
        return
    _tell(done)


def _tell(done: Maintained) -> None:
    if done.damaged:
        log.warning("history_files_damaged", files=len(done.damaged), problems=done.damaged[:_SHOWN_PROBLEMS])
    if done.before or done.expired or done.leftovers:
        log.info(
            "history_compacted",
            files_before=done.before,
            files_after=done.after,
            days_removed=done.expired,
            leftovers=done.leftovers,
        )
