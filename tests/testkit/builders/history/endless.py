"""A process that adds passes to a history and has them written, again and again, until it is killed.

Arguments: folder or URL of the history, which Spark writes, number of this process, and the folder for rows that wait,
where that is not in the history. Prints the number of every pass before that is written.
"""

from __future__ import annotations

import itertools
import sys
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import structlog

from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.tables.files import is_local, own_session
from flink_autoscaler.standalone.history.sink import HistorySink
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings
from testkit.builders.history import NOON_MS
from testkit.contracts.recorded_passes import window_filling


def main() -> None:
    """Go on until killed."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    spill = sys.argv[3] if len(sys.argv) > 3 else None
    settings = HistorySettings(
        enabled=True, path=sys.argv[1], interval=0.0, compaction_interval=0.0, spill_directory=spill
    )
    with ExitStack() as parts:
        spark: Any = None
        if not is_local(sys.argv[1]):
            spark = parts.enter_context(own_session(SparkSettings(master="local[1]")))
        add_for_ever(HistorySink(settings, sessions=lambda: nullcontext(spark)), int(sys.argv[2]) * 1000)


def add_for_ever(sink: HistorySink, first_minute: int) -> None:
    """Add a pass a minute and wait until it is written."""
    record = window_filling().records[-1]
    for minute in itertools.count(first_minute):
        outcome = replace(record.outcome, observation=replace(record.outcome.observation, sample=None))
        sink.add([outcome], [record.request.context], NOON_MS + minute * 60_000)
        sys.stdout.write(f"{minute}\n")
        sys.stdout.flush()
        sink.flush(60.0)


if __name__ == "__main__":
    main()
