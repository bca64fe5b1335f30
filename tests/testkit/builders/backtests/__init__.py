"""Recorded jobs whose capacities are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from flink_autoscaler.pipeline.backtest.fitting import COLUMNS, Records
from flink_autoscaler.pipeline.tables.rows import NamedRow
from flink_autoscaler.pipeline.tables.schema import TABLES
from testkit.builders.history import NOON_MS, a_storage, write

SOURCE, WORK = "a" * 32, "b" * 32
RATES = {SOURCE: 1000.0, WORK: 100.0}
"""Records/s of one subtask that is always busy."""

SELECTIVITY = 0.5
SIZES = {SOURCE: 1, WORK: 4}
NOON = NOON_MS / 1000
LATER = NOON + 30 * 86_400.0
"""When the recorded jobs are looked at."""

Change = Callable[[str, dict[str, Any]], dict[str, Any] | None]
"""From the name of a table and a row to another row, or None to leave it out."""


def job_rows(
    job_key: str = "main/orders",
    *,
    minutes: int = 120,
    first: int = 0,
    rate: Callable[[int], float] = lambda minute: 400.0 if minute < 60 else 600.0,
    change: Change = lambda _, row: row,
) -> list[NamedRow]:
    """Make the rows of a job, from a minute after noon on: a source, and work of which there is half as much."""
    rows = [each for minute in range(first, first + minutes) for each in _minute(job_key, minute, rate(minute))]
    return [(name, changed) for name, row in rows if (changed := change(name, row)) is not None]


def arrival_rows(minutes: range, rate: Callable[[int], float], job_key: str = "main/orders") -> list[NamedRow]:
    """Make the rows of what arrived in some minutes, counted from noon; they may be before that."""
    return [_arrival(job_key, minute, rate(minute)) for minute in minutes]


def _who(job_key: str, minute: int) -> dict[str, Any]:
    at_ms = NOON_MS + (minute + 1) * 60_000
    return {"cluster": job_key.partition("/")[0], "job_key": job_key, "job_id": "5" * 32, "ts": at_ms * 1000}


def _arrival(job_key: str, minute: int, rate: float) -> NamedRow:
    sample = {"source_id": SOURCE, "span": 60.0, "arrival_rate": rate, "consumption_rate": rate, "partitions": 6}
    return "samples", {**_who(job_key, minute), **sample}


def _minute(job_key: str, minute: int, rate: float) -> list[NamedRow]:
    who = _who(job_key, minute)
    edge = [{"vertex_id": SOURCE, "ship_strategy": "REBALANCE", "selectivity": SELECTIVITY}]
    return [
        _arrival(job_key, minute, rate),
        ("vertices", {**who, **_vertex(SOURCE, rate), "inputs": []}),
        ("vertices", {**who, **_vertex(WORK, rate * SELECTIVITY), "inputs": edge}),
    ]


def _vertex(vertex_id: str, rate: float) -> dict[str, Any]:
    return {
        "vertex_id": vertex_id,
        "vertex_name": "Source: orders" if vertex_id == SOURCE else "work",
        "is_source": vertex_id == SOURCE,
        "parallelism": SIZES[vertex_id],
        "max_parallelism": 64,
        "busy": rate / (RATES[vertex_id] * SIZES[vertex_id]),
        "records_in_rate": rate,
    }


def rescale_row(outage: float, *, decided: int = 0, job_key: str = "main/orders") -> NamedRow:
    """Make a rescale that took a job away for so many seconds."""
    at = (NOON_MS + decided * 60_000) * 1000
    return "rescales", {"job_key": job_key, "ts": at, "decided_at": at, "outage": outage}


def records(rows: list[NamedRow], job_key: str = "main/orders") -> Records:
    """Gather the rows of one job as fitting wants them."""
    tables: Mapping[str, pa.Table] = {
        name: pa.Table.from_pylist([row for table, row in rows if table == name], TABLES[name].schema).select(columns)
        for name, columns in COLUMNS.items()
    }
    return Records(job_key, **tables)


def a_history(root: Path, *jobs: list[NamedRow]) -> Path:
    """Write jobs as a history, each at once."""
    root.mkdir(parents=True, exist_ok=True)
    write(a_storage(root), *jobs)
    return root
