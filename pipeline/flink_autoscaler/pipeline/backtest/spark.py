"""Runs a plan on Spark, and has it read and fit histories that are too large for one process.

Every piece is a Spark job of its own, submitted from as many threads as there are task slots: what is finished is
there at once, and one that fails takes no other with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import BinaryType, StructField, StructType

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.backtest.case import BacktestCase, FittedHistory, SkippedJob
from flink_autoscaler.pipeline.backtest.fitting import COLUMNS
from flink_autoscaler.pipeline.backtest.inline import BacktestFilter, InlineRunner
from flink_autoscaler.pipeline.backtest.plan import BacktestPlan, SimulationResult, SimulationTask
from flink_autoscaler.pipeline.backtest.workers import RESULT, FitTask, RunTask
from flink_autoscaler.pipeline.profiles.run import BATCH_CONF
from flink_autoscaler.pipeline.spark.codec import decode, encode
from flink_autoscaler.pipeline.spark.executors import ArrowFunction, map_in_arrow
from flink_autoscaler.pipeline.spark.session import open_session
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.spark.supply import SparkLostError, reason_of
from flink_autoscaler.pipeline.tables.files import files_at, is_local
from flink_autoscaler.pipeline.tables.schema import TABLES
from flink_autoscaler.pipeline.tables.spark_files import read
from flink_autoscaler.pipeline.tables.store import Progress, ignore_progress

T = TypeVar("T")

_KEY: Final = "job_key"
_RESULTS: Final = StructType([StructField(RESULT, BinaryType())])


class SparkRunner:
    """Runs backtests in a Spark session (a ``Runner``).

    Args:
        spark: The session.
        settings: How it was opened.
        slots: Pieces at the same time.
    """

    def __init__(self, spark: SparkSession, settings: SparkSettings, slots: int) -> None:
        self._spark, self._settings, self._slots = spark, settings, slots

    def fleet(
        self, path: str, choice: BacktestFilter, now: float, progress: Progress = ignore_progress
    ) -> FittedHistory:
        """Do what ``Runner`` says, in Spark's workers where they see the files of the history.

        Raises beside that ``ConfigError`` where this kind of Spark does not reach the path.
        """
        if is_local(path) and not self._settings.is_embedded:
            return InlineRunner().fleet(path, choice, now, progress)
        if self._settings.is_connect:
            raise ConfigError(f"{path}: a Spark Connect server lends no access to its file systems; use another master")
        files = files_at(path, self._spark)
        tables = {name: read(self._spark, files, TABLES[name], choice.part_of(name)) for name in COLUMNS}
        gathered = _group_tables({name: table.frame for name, table in tables.items()})
        parts = self._results(gathered, FitTask(choice.terms(now)), FittedHistory)
        damaged = tuple(problem for table in tables.values() for problem in table.damaged)
        fitted: list[BacktestCase | SkippedJob] = []
        for part in parts:
            fitted += [*part.subjects, *part.left_out]
        return FittedHistory.of(fitted, damaged)

    def outcomes(self, plan: BacktestPlan) -> Iterator[SimulationResult]:
        """Yield what came of each piece as soon as it is there, in no order; Spark's failures are in the outcomes."""
        threads = ThreadPoolExecutor(self._slots, thread_name_prefix="backtest")
        try:
            for finished in as_completed([threads.submit(self._run, piece) for piece in plan.pieces()]):
                yield finished.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, piece: SimulationTask) -> SimulationResult:
        try:
            (outcome,) = self._results(pa.table({"piece": [encode(piece)]}), RunTask(), SimulationResult)
        except SparkLostError as error:
            return SimulationResult(piece.subject.job_key, piece.configuration, problem=str(error))
        return outcome

    def _results(self, given: pa.Table | DataFrame, task: ArrowFunction, kind: type[T]) -> list[T]:
        try:
            frame = self._spark.createDataFrame(given) if isinstance(given, pa.Table) else given
            return [decode(row[RESULT], kind) for row in map_in_arrow(frame, task, _RESULTS).toArrow().to_pylist()]
        except Exception as exc:  # py4j, pyspark and Spark raise dozens of kinds when a job fails
            raise SparkLostError(f"Spark failed: {reason_of(exc)}") from exc


@contextmanager
def spark_runner(settings: SparkSettings) -> Iterator[SparkRunner]:
    """Open a session and give what runs backtests in it; what still runs at the end is ended with it.

    Raises:
        ConfigError: Java or a library is missing or too old.
        SparkLostError: Spark did not start, or its executors or its version do not suit.
    """
    session = open_session(replace(settings, conf={**BATCH_CONF, **settings.conf}))
    try:
        yield SparkRunner(session.spark, settings, session.slots())
    except BaseException:
        session.kill()
        raise
    session.close()


def _group_tables(frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return one row per job: ``job_key`` and, by the names of the tables, a list of the rows of each."""
    by_job = [_by_job(frame, name) for name, frame in frames.items()]
    joined = reduce(lambda left, right: left.join(right, on=_KEY, how="full"), by_job)
    # A job that has nothing but rescales is not one that anything could be said about.
    return joined.where("vertices is not null or samples is not null")


def _by_job(frame: DataFrame, name: str) -> DataFrame:
    return frame.where(F.col(_KEY).isNotNull()).groupBy(_KEY).agg(F.collect_list(F.struct(*COLUMNS[name])).alias(name))
