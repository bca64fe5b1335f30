"""Appends batches of rows to a history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from flink_autoscaler.pipeline.history.choices import Partition
from flink_autoscaler.pipeline.history.layout import STAGING, SUFFIX, divided
from flink_autoscaler.pipeline.history.schema import TABLES
from flink_autoscaler.pipeline.history.storage import HistoryStorage


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that are written together.

    Attributes:
        identity: Made by ``new_id``: writing a batch again that was written in part completes it.
        tables: Rows by the name of their table; may be empty.
    """

    identity: str
    tables: Mapping[str, pa.Table]

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(len(rows) for rows in self.tables.values())


def append(storage: HistoryStorage, batch: Batch, partition: Partition = Partition.CLUSTER) -> int:
    """Append a batch: one file per folder, each of which appears whole or not at all.

    Files are written to the staging folder and moved from there. They are named after the batch, so that a batch that
    was interrupted at any instant can be appended again: what is there already stays as it is.

    Returns:
        Files that were added.

    Raises:
        HistoryError: Some files may have been added; append the batch again.
    """
    staging = f"{STAGING}/{batch.identity}"
    storage.files.remove(staging)
    added = 0
    for name, rows in batch.tables.items():
        if len(rows) == 0:
            continue
        pieces = list(divided(TABLES[name], rows, partition))
        staged = storage.parts.write([piece for _, piece in pieces], f"{staging}/{name}")
        for source, (folder, _) in zip(staged, pieces, strict=True):
            added += storage.files.move(source, f"{folder.path}/{batch.identity}{SUFFIX}")
    storage.files.remove(staging)
    return added
