"""The metric history: what was measured, decided and rescaled, as Parquet files on any Hadoop-compatible path.

:mod:`.schema` declares the tables, :mod:`.layout` where their files are. Importing this package imports neither Spark
nor Arrow.
"""

from enum import StrEnum


class Partition(StrEnum):
    """Division of each table into folders: by UTC day and cluster, or by day alone."""

    CLUSTER = "cluster"
    DATE = "date"
