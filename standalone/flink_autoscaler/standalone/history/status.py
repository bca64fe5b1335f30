"""How the keeping of the history goes, and what Prometheus is told about it. Imports no pyarrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HISTORY_COUNTERS: Final = {
    "rows_written": "Rows written to the history.",
    "files_written": "Files added to the history.",
    "rows_lost": "Rows given up because too many waited for the path.",
    "passes_lost": "Passes given up because they came faster than rows.",
    "failures": "Attempts to write or to compact the history that failed.",
    "compaction_failures": "Attempts to compact the history that failed.",
}
HISTORY_GAUGES: Final = {
    "up": "Whether the path of the history could be used at the last attempt.",
    "rows_waiting": "Rows that are not written yet.",
    "batches_waiting": "Batches that are due and could not be written yet.",
    "spilled_bytes": "Size of the spill folder.",
    "last_write_age_seconds": "Time since rows were last written.",
    "last_write_seconds": "Duration of the last write.",
    "last_compaction_timestamp_seconds": "When the history was last compacted and rid of what is old, epoch seconds.",
    "last_compaction_seconds": "How long that took.",
}


@dataclass(slots=True)
class HistoryStatus:
    """What the thread of the history has done since the start of the daemon, and what waits; as the series say it.

    Attributes:
        up: True before the first access to the path.
        rows_waiting: On their way to a batch or in one.
        last_write_age_seconds: At the instant of the status; None before the first write.
        last_write_seconds: With all batches that were due; None before the first.
        last_compaction_timestamp_seconds: When one ended well last, epoch seconds; None before the first.
        last_compaction_seconds: How long that took.
    """

    rows_written: int = 0
    files_written: int = 0
    rows_lost: int = 0
    passes_lost: int = 0
    failures: int = 0
    compaction_failures: int = 0
    up: bool = True
    rows_waiting: int = 0
    batches_waiting: int = 0
    spilled_bytes: int = 0
    last_write_age_seconds: float | None = None
    last_write_seconds: float | None = None
    last_compaction_timestamp_seconds: float | None = None
    last_compaction_seconds: float | None = None
