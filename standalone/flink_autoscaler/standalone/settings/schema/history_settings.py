"""The options of the metric history."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from flink_autoscaler.core.model.load_profile import BUCKET
from flink_autoscaler.pipeline.history import Partition, Writer
from flink_autoscaler.standalone.settings.schema.fields import Count, Flag, OptionalText, Seconds, Syntax, member_of
from flink_autoscaler.standalone.settings.schema.section import Section

_Writer = Annotated[Writer, member_of(Writer), Syntax("auto, arrow or spark")]
_Partition = Annotated[Partition, member_of(Partition), Syntax("cluster or date")]


class HistorySettings(Section):
    """Metrics, decisions and rescales that are kept as Parquet files, for profiles, backtests and reports."""

    enabled: Flag = Field(default=False, description="Whether a history is kept.")
    path: OptionalText = Field(
        default=None,
        description="Folder of the history: local, or a URL that Spark reaches such as hdfs://nameservice1/history.",
    )
    writer: _Writer = Field(
        default=Writer.AUTO,
        description="arrow writes in the daemon process; spark as Spark jobs; auto: arrow where the path is local.",
    )
    partition: _Partition = Field(
        default=Partition.CLUSTER,
        description="cluster: a folder per day and cluster; date: one per day, for many small clusters.",
    )
    interval: Seconds = Field(
        default=60.0,
        ge=0,
        le=BUCKET,
        description="While nothing is decided, one pass over a job is kept in this time, or in metrics.window of the "
        "job where that is less; 0 keeps every pass. Profiles are made of quarter hours, so it cannot be longer.",
    )
    flush_interval: Seconds = Field(
        default=900.0, ge=1, description="Time for which rows are gathered before they are written as files."
    )
    flush_rows: Count = Field(
        default=50_000, ge=100, description="Rows that are written before that time; four times as many wait at most."
    )
    spill_directory: OptionalText = Field(
        default=None,
        description="Local folder in which rows that are not written yet survive the end of the daemon; unset takes "
        "_pending in a history on a local path, and memory alone for other paths.",
    )
    retention: Seconds = Field(
        default=90 * 86_400.0, ge=0, description="Age after which whole days are removed; 0 keeps them."
    )
    compaction_interval: Seconds = Field(
        default=6 * 3600.0,
        ge=0,
        description="Time between two compactions, which also remove what is too old; 0 leaves both to "
        "flink-autoscaler history compact.",
    )
