"""What a configuration may choose about a history. Imports nothing, so that reading settings stays cheap."""

from __future__ import annotations

from enum import StrEnum


class Partition(StrEnum):
    """How each table is divided into folders: by UTC day and cluster, or by day alone."""

    CLUSTER = "cluster"
    DATE = "date"


class Writer(StrEnum):
    """Who writes and reads the files: Arrow in this process where the path is local, or Spark."""

    AUTO = "auto"
    ARROW = "arrow"
    SPARK = "spark"
