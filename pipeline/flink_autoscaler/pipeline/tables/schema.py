"""The tables of the metric history, declared once.

A version may add columns and nothing else: a column never changes name, type, unit or meaning, and is never removed.
So every version can be read by every later one, where columns that are missing are null, and by every earlier one,
which does not see the new columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa

VERSION: Final = 1
"""What this program writes."""

_TEXT: Final = pa.string()
_RATE: Final = pa.float64()
_INSTANT: Final = pa.timestamp("us", "UTC")
_PARALLELISM: Final = pa.list_(pa.struct([("vertex_id", _TEXT), ("parallelism", pa.int32())]))


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Every column may be null: a number that is not known is.

    Attributes:
        description: With the unit, for the documentation.
        since: The first version that has it.
    """

    name: str
    type: pa.DataType
    description: str
    since: int = 1


@dataclass(frozen=True)
class HistoryTable:
    """One table.

    Attributes:
        key: Columns that tell its rows apart: a row that was written twice counts once after a compaction.
        is_revised: Whether a row may be written again with more in it; the one with the latest ``ts`` counts.
    """

    name: str
    description: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    is_revised: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow sees them."""
        return pa.schema([(column.name, column.type) for column in self.columns])


_WHO: Final = (
    Column("cluster", _TEXT, "Name of the cluster in the configuration."),
    Column("job_key", _TEXT, "Identity of the job, `<cluster>/<job name>` by default."),
    Column("job_id", _TEXT, "Flink's id of the job, 32 hex digits."),
    Column("ts", _INSTANT, "Instant of the pass."),
)

SAMPLES: Final = HistoryTable(
    "samples",
    "What arrived at each source: input of profiles and backtests.",
    (
        *_WHO,
        Column("source_id", _TEXT, "Vertex id of the source, 32 hex digits."),
        Column("source_name", _TEXT, "Name of the source."),
        Column("span", _RATE, "Seconds before `ts` that the rates cover."),
        Column("arrival_rate", _RATE, "Records/s that arrived: `consumption_rate` + `lag_slope`, at least 0."),
        Column("consumption_rate", _RATE, "Records/s that the source read."),
        Column("lag_slope", _RATE, "Records/s by which the lag grew; negative while it shrinks."),
        Column("lag", _RATE, "Records waiting at the source at `ts`."),
        Column("parallelism", pa.int32(), "Subtasks of the source."),
        Column("partitions", pa.int32(), "Partitions that the source reads."),
    ),
    key=("job_key", "source_id", "ts"),
)

VERTICES: Final = HistoryTable(
    "vertices",
    "How each vertex did, sources included: from these, backtests fit capacities and selectivities.",
    (
        *_WHO,
        Column("vertex_id", _TEXT, "32 hex digits."),
        Column("vertex_name", _TEXT, "Name of the vertex."),
        Column("span", _RATE, "Seconds before `ts` that busy time and record rates cover."),
        Column("is_source", pa.bool_(), "Whether nothing feeds the vertex."),
        Column("parallelism", pa.int32(), "Subtasks."),
        Column("max_parallelism", pa.int32(), "Max parallelism, the number of key groups."),
        Column("slot_sharing_group", _TEXT, "Slot sharing group, where the cluster tells."),
        Column("busy", _RATE, "Share of its time that the vertex was busy, 0..1."),
        Column("records_in_rate", _RATE, "Records/s read."),
        Column("records_out_rate", _RATE, "Records/s written."),
        Column("true_rate", _RATE, "Records/s it could process if always busy, all subtasks, over the metric window."),
        Column("target_rate", _RATE, "Records/s it has to sustain, over the metric window."),
        Column("catch_up_rate", _RATE, "Further records/s that drain the lag in time."),
        Column("scale_up_threshold", _RATE, "Records/s; a lower `true_rate` scales up."),
        Column("scale_down_threshold", _RATE, "Records/s; a higher `true_rate` scales down."),
        Column("recommended_parallelism", pa.int32(), "Subtasks that the pass came to."),
        Column(
            "inputs",
            pa.list_(pa.struct([("vertex_id", _TEXT), ("ship_strategy", _TEXT), ("selectivity", _RATE)])),
            "Upstream vertices; `selectivity` is records along the edge per record the upstream vertex read.",
        ),
        Column(
            "origins",
            pa.list_(pa.struct([("metric", _TEXT), ("origin", _TEXT)])),
            "Where values came from, such as `kafka`; empty where all came from Flink's REST API.",
        ),
    ),
    key=("job_key", "vertex_id", "ts"),
)

DECISIONS: Final = HistoryTable(
    "decisions",
    "What passes came to, and why.",
    (
        *_WHO,
        Column("phase", _TEXT, "How far the pass came, such as `executed` or `window_filling`."),
        Column("status", _TEXT, "Status of the job, such as `RUNNING`."),
        Column("decision", _TEXT, "`rescale` or `hold`."),
        Column(
            "reasons",
            pa.list_(pa.struct([("code", _TEXT), ("text", _TEXT), ("vertex_id", _TEXT)])),
            "Why; `vertex_id` is null where a reason is about the whole job.",
        ),
        Column(
            "changes",
            pa.list_(pa.struct([("vertex_id", _TEXT), ("before", pa.int32()), ("after", pa.int32())])),
            "Parallelism that a rescale changes; empty for a hold.",
        ),
        Column("error", _TEXT, "What went wrong; null when nothing did."),
        Column("is_window_full", pa.bool_(), "Whether the metric window allowed a decision."),
        Column("restart_time", _RATE, "Seconds that a restart was assumed to take."),
        Column("supervision", _TEXT, "Trust in the last rescale: `stable`, `probation`, `rolling back` or `paused`."),
        Column("gc_pressure", _RATE, "Share of its time the fullest TaskManager collects garbage, 0..1."),
        Column("heap_usage", _RATE, "Share of its heap the fullest TaskManager uses, 0..1."),
        Column("slots_used", pa.int32(), "Slots of the cluster that are taken."),
        Column("slots_held", pa.int32(), "Slots of the job, where a policy runs in shadow mode."),
        Column("shadow_policy", _TEXT, "The policy in shadow mode; null without one, or where it was not asked."),
        Column("shadow_slots", pa.int32(), "Slots that it would give the job; null when it has no opinion."),
        Column("shadow_direction", _TEXT, "Where it would go from `slots_held`: `up`, `down`, `mixed` or `none`."),
    ),
    key=("job_key", "ts"),
)

RESCALES: Final = HistoryTable(
    "rescales",
    "What became of each rescale, and how long the job was away: a row when it settles, another when it is undone.",
    (
        *_WHO,
        Column("decided_at", _INSTANT, "When it was decided; identifies the rescale of a job."),
        Column("settled_at", _INSTANT, "When it was reached, refused or superseded."),
        Column("origin", _TEXT, "`autoscaler`, `rollback` or `operator`."),
        Column("mechanism", _TEXT, "`inplace`, `redeploy` or `reactive_loss`."),
        Column("stage", _TEXT, "`reached`, `partially reached`, `refused` or `superseded`."),
        Column("reason", _TEXT, "What became of it, for people."),
        Column("outage", _RATE, "Seconds during which not all tasks ran."),
        Column("before", _PARALLELISM, "Parallelism of every vertex before."),
        Column("target", _PARALLELISM, "Parallelism that was asked for."),
        Column("reached", _PARALLELISM, "Parallelism that the job had when it was settled."),
        Column("state_bytes", pa.int64(), "Size of the last completed checkpoint."),
        Column("taskmanagers", pa.int32(), "TaskManagers afterwards."),
        Column("reverted", pa.bool_(), "Whether it was rolled back."),
    ),
    key=("job_key", "decided_at"),
    is_revised=True,
)

TABLES: Final = {table.name: table for table in (SAMPLES, VERTICES, DECISIONS, RESCALES)}
"""By name, which is also the name of their folder."""


def timestamp_scalar(at_ms: int) -> pa.Scalar:
    """Return epoch milliseconds as a value to compare columns with."""
    return pa.scalar(at_ms * 1000, _INSTANT)
