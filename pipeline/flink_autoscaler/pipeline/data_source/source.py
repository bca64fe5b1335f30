"""The data source, as Spark sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.data_source.choices import Choices, choices_of
from flink_autoscaler.pipeline.data_source.reading import Share, read_share
from flink_autoscaler.pipeline.data_source.tables import TABLES

NAME: Final = "flink_metrics"

_CONDITIONS: Final = frozenset({"cluster", "job_id", "job_name", "metric"})
"""Columns whose conditions save requests or rows."""


class FlinkMetrics(DataSource):
    """Live jobs, vertices and metrics of Flink clusters; ``choices.OPTIONS`` lists the options.

    Nothing is asked while a query is planned, so that its tasks see the state of the instant in which they run.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns of the chosen table.

        Raises:
            ConfigError: An option cannot be used.
        """
        return from_arrow_schema(TABLES[choices_of(self.options).table].schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader.

        Raises:
            ConfigError: An option cannot be used, or somebody gave another schema.
        """
        choices = choices_of(self.options)
        if schema.names != self.schema().names:
            raise ConfigError(f"{NAME}: the table {choices.table!r} has a schema of its own, so none can be given")
        return FilteringReader(choices) if choices.pushes_down else MetricsReader(choices)


@dataclass
class ClusterShare(InputPartition):
    """One task's share of the jobs of a cluster. Holds no credentials."""

    cluster: str
    index: int


class MetricsReader(DataSourceReader):
    """Reads a table, one task per cluster and share of its jobs."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def partitions(self) -> Sequence[InputPartition]:
        """Return the shares."""
        return [ClusterShare(name, index) for name in self._clusters() for index in range(self._choices.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Ask the cluster.

        Raises:
            AutoscalerError: It does not answer as documented, and that is not to be skipped.
        """
        assert isinstance(partition, ClusterShare)  # noqa: S101 - as made above
        yield from read_share(self._choices, Share(partition.cluster, partition.index), self._accepts())

    def _clusters(self) -> Iterable[str]:
        return self._choices.clusters

    def _accepts(self) -> dict[str, frozenset[str]]:
        """Return the values that columns may have, without those that may have any."""
        return {}


class FilteringReader(MetricsReader):
    """Also takes conditions from Spark. Apart, because Spark refuses such readers unless that is switched on."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self._conditions: dict[str, frozenset[str]] = {}

    def pushFilters(self, filters: list[datasource.Filter]) -> Iterable[datasource.Filter]:  # noqa: N802 - Spark's
        """Take conditions that compare one column with texts; return the others, which Spark evaluates itself."""
        for condition in filters:
            column, values = _condition(condition)
            if column in _CONDITIONS and values is not None:
                self._conditions[column] = self._conditions.get(column, values) & values
            else:
                yield condition

    def partitions(self) -> Sequence[InputPartition]:
        """Return the shares that may have rows, at least one."""
        return super().partitions() or [ClusterShare(next(iter(self._choices.clusters)), 0)]

    def _clusters(self) -> Iterable[str]:
        allowed = self._conditions.get("cluster")
        return [name for name in self._choices.clusters if allowed is None or name in allowed]

    def _accepts(self) -> dict[str, frozenset[str]]:
        return self._conditions


def _condition(condition: datasource.Filter) -> tuple[str, frozenset[str] | None]:
    """Return the column of a condition and the values that it allows; None where it is of another kind."""
    match condition:
        case datasource.EqualTo(attribute=(column,), value=str(value)):
            return column, frozenset({value})
        case datasource.In(attribute=(column,), value=values) if all(isinstance(value, str) for value in values):
            return column, frozenset(values)
        case _:
            return "", None
