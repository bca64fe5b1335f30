"""The tables of the data source, declared once."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from flink_autoscaler.pipeline.tables.schema import Column, HistoryTable

_TEXT: Final = pa.string()
_COUNT: Final = pa.int32()
_RECORDS: Final = pa.int64()
_NUMBER: Final = pa.float64()
_INSTANT: Final = pa.timestamp("us", "UTC")

_JOB: Final = (
    Column("cluster", _TEXT, "Name of the cluster, its URL where none was given."),
    Column("job_id", _TEXT, "Flink's id of the job, 32 hex digits."),
    Column("job_name", _TEXT, "Name of the job."),
)
_VERTEX: Final = (
    *_JOB,
    Column("vertex_id", _TEXT, "32 hex digits."),
    Column("vertex_name", _TEXT, "Name of the vertex."),
)
_OBSERVED: Final = Column("observed_at", _INSTANT, "When the job list was asked for, by the clock of the executor.")

JOBS: Final = HistoryTable(
    "jobs",
    "Every job that a cluster remembers, ended ones too.",
    (
        *_JOB,
        Column("state", _TEXT, "State in Flink's words, such as `RUNNING`."),
        Column("job_type", _TEXT, "`STREAMING` or `BATCH`; null before Flink 2.1."),
        Column("scheduler_type", _TEXT, "Such as `Adaptive`; null before Flink 2.1."),
        Column("tasks_total", _COUNT, "Tasks of the job."),
        Column("tasks_running", _COUNT, "Tasks that run."),
        Column("started_at", _INSTANT, "When the job was started."),
        Column("ended_at", _INSTANT, "When the job ended; null while it has not."),
        Column("error", _TEXT, "Why the entry of the job cannot be read; null where it can. The rest is then null."),
        _OBSERVED,
    ),
    key=("cluster", "job_id"),
)
VERTICES: Final = HistoryTable(
    "vertices",
    "Every vertex of the jobs that have not ended.",
    (
        *_VERTEX,
        Column("status", _TEXT, "Status in Flink's words."),
        Column("parallelism", _COUNT, "Subtasks."),
        Column("max_parallelism", _COUNT, "Max parallelism, the number of key groups; null where it is not known."),
        Column("slot_sharing_group", _TEXT, "Slot sharing group, where the cluster tells."),
        Column(
            "inputs",
            pa.list_(pa.struct([("vertex_id", _TEXT), ("ship_strategy", _TEXT)])),
            "Upstream vertices; empty for a source.",
        ),
        Column("records_in", _RECORDS, "Records read since the vertex was started; null while not all subtasks tell."),
        Column("records_out", _RECORDS, "Records written, likewise."),
        Column("busy_ms", _NUMBER, "Time that the subtasks were busy since then, summed, in ms; null where unknown."),
        _OBSERVED,
    ),
    key=("cluster", "job_id", "vertex_id"),
)
METRICS: Final = HistoryTable(
    "metrics",
    "Every metric of every vertex of the jobs that have not ended, over all subtasks.",
    (
        *_VERTEX,
        Column("metric", _TEXT, "Flink's id of the metric, such as `busyTimeMsPerSecond`."),
        Column("minimum", _NUMBER, "Least value of a subtask; null where it is not a number."),
        Column("maximum", _NUMBER, "Greatest value of a subtask."),
        Column("average", _NUMBER, "Average over the subtasks."),
        Column("total", _NUMBER, "Sum over the subtasks."),
        Column("skew", _NUMBER, "Skew between the subtasks in percent; null before Flink 1.20."),
        _OBSERVED,
    ),
    key=("cluster", "job_id", "vertex_id", "metric"),
)

TABLES: Final = {table.name: table for table in (JOBS, VERTICES, METRICS)}
