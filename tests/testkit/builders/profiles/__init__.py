"""Samples of sources to make profiles from, as a metric history and as a Parquet file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from flink_autoscaler.pipeline.tables.files import new_id
from flink_autoscaler.pipeline.tables.schema import SAMPLES
from flink_autoscaler.pipeline.tables.store import WriteBatch, append
from testkit.builders.history import a_storage, conformed

ASOF: Final = "2026-11-02T00:00Z"
"""The end of the samples, for ``--asof``."""

DAYS: Final = {"main/orders": 15, "main/clicks": 4, "main/new": 1}
"""Days with samples by job; a profile needs three."""

_END: Final = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp())
_ENOUGH: Final = 10
"""Minutes of a quarter hour that count as all of it."""


@dataclass(frozen=True)
class Samples:
    """The same rows twice.

    Attributes:
        history: Folder of a metric history.
        file: Parquet, as something else may have written it.
    """

    history: Path
    file: Path


def write_samples(folder: Path, end: int = _END, days: Mapping[str, int] = DAYS) -> Samples:
    """Write samples of the source ``source`` of some jobs. Rates are whole, so that sums are exact.

    Args:
        folder: Where to.
        end: Of the samples, epoch seconds; a whole minute.
        days: By job.
    """
    rows = conformed(SAMPLES, pa.concat_tables([_samples(job_key, count, end) for job_key, count in days.items()]))
    found = Samples(folder / "history", folder / "samples.parquet")
    found.history.mkdir(parents=True)
    append(a_storage(found.history), WriteBatch(new_id(0), {SAMPLES.name: rows}))
    pq.write_table(rows, found.file)
    return found


def _samples(job_key: str, days: int, end: int) -> pa.Table:
    minutes = range(end // 60 - days * 1440, end // 60)
    kept = [minute for minute in minutes if minute % 15 < _ENOUGH]
    columns: dict[str, Any] = {
        "cluster": ["main"] * len(kept),
        "job_key": [job_key] * len(kept),
        "source_id": ["source"] * len(kept),
        "ts": pa.array([minute * 60_000_000 for minute in kept], pa.timestamp("us", "UTC")),
        "arrival_rate": [_rate(minute) for minute in kept],
    }
    return pa.table(columns)


def _rate(minute: int) -> float:
    """Return a day from 100 to 219 records/s, and something else every quarter hour of the week."""
    return float(100 + (minute // 12) % 120 + (minute // 15) * 7919 % 31)
