"""A session on a Spark Connect server (``sc://``); needs the ``connect`` extra."""

from __future__ import annotations

import contextlib
import logging
import warnings
from typing import Any, Final

import pyarrow as pa
import pyspark
import structlog
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.functions.builtin import udf
from pyspark.sql.connect.session import SparkSession

from flink_autoscaler.pipeline.spark.archive import pack_libraries, pack_ours
from flink_autoscaler.pipeline.spark.executors import OUTCOMES_TYPE, lacking, minor, surveyed
from flink_autoscaler.pipeline.spark.frames import FrameTask, table
from flink_autoscaler.pipeline.spark.scratch import Scratch
from flink_autoscaler.pipeline.spark.settings import COMMON, SparkSettings
from flink_autoscaler.pipeline.spark.supply import SparkLostError, bounded, reason_of
from flink_autoscaler.pipeline.spark.task import OutcomeRow, PartitionPlan, PassTask

RETRIES: Final = DefaultPolicy(max_retries=5, max_backoff=2000)
"""About 5 s altogether. By default a client asks a server that is gone for ten minutes, which is longer than a pass."""

STOP_SECONDS: Final = 3.0
"""How long the server may take to end a session before it is left to its own clean-up."""

_SLOTS: Final = "SELECT count(DISTINCT place) FROM (SELECT spark_partition_id() AS place FROM range(10000))"
"""A range has as many partitions as Spark has task slots, unless the server is configured otherwise."""

_log = structlog.get_logger(__name__)


class ConnectSession:
    """A session of a Spark Connect server (a ``PassSession``)."""

    def __init__(self, settings: SparkSettings) -> None:
        """Connect, and ship what executors lack.

        Raises:
            SparkLostError: The server does not answer, has a version that this client cannot work with, or has
                executors that cannot do our work.
        """
        # pyspark prints every refusal of the server with the stack trace of its JVM; we log what matters of it.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        warnings.filterwarnings("ignore", message=".*RETRIES_EXCEEDED.*")
        self.spark = SparkSession(settings.master)
        self.spark.client.set_retry_policies([RETRIES])
        try:
            require_version(str(self.spark.version), pyspark.__version__)
            self._configure(settings)
            self._slots = self._count_slots()
            self._equip(settings)
        except SparkLostError:
            self.close()
            raise
        except Exception as exc:  # grpc and pyspark raise a dozen kinds when the server does not do as asked
            reason = reason_of(exc)
            self.close()
            raise SparkLostError(f"the Spark Connect server at {address(settings.master)}: {reason}") from exc

    def slots(self) -> int:
        """Return how many tasks the server runs at the same time, as it was when the session was opened."""
        return self._slots

    def run(self, plan: PartitionPlan, task: PassTask, *, label: str) -> list[OutcomeRow]:
        """Run one Spark job, one task per piece of the plan, and return its rows. Raises what Spark raises."""
        self.spark.addTag(label)
        try:
            answers = self._dealt(table(plan)).mapInArrow(FrameTask(task), OUTCOMES_TYPE).toArrow()
            return list(zip(*(column.to_pylist() for column in answers.columns), strict=True))
        finally:
            self.spark.removeTag(label)

    def cancel(self, label: str) -> None:
        """Cancel the job with a label. Raises what Spark raises."""
        self.spark.interruptTag(label)

    def is_alive(self) -> bool:
        """Whether the server still answers and knows the session."""
        try:
            return self.spark.conf.get("spark.sql.session.timeZone") is not None
        except Exception:  # grpc and pyspark raise a dozen kinds when the server is gone
            return False

    def close(self) -> None:
        """End the session within bounded time; the server goes on. Never raises."""
        with contextlib.suppress(Exception):
            bounded(STOP_SECONDS, self.spark.stop)

    def kill(self) -> None:
        """End a session that is lost, without waiting for Spark to help. Never raises."""
        self.close()

    def _configure(self, settings: SparkSettings) -> None:
        for key, value in {**COMMON, **settings.conf}.items():
            try:
                self.spark.conf.set(key, value)
            except Exception as exc:  # only the one who starts the server can set it
                _log.warning("spark_setting_ignored", key=key, reason=reason_of(exc))

    def _count_slots(self) -> int:
        return max(1, int(self.spark.sql(_SLOTS).collect()[0][0]))

    def _equip(self, settings: SparkSettings) -> None:
        with Scratch() as scratch:
            self._ship(*(settings.python_files or [str(pack_ours(scratch.path / "flink-autoscaler.zip"))]))
            executors = surveyed(self.spark, udf, self._slots, timeout=settings.executors_timeout)
            if lacking(executors, spark_version=str(self.spark.version)):
                self._ship(str(pack_libraries(scratch.path / "flink-autoscaler-libraries.zip")))

    def _ship(self, *archives: str) -> None:
        self.spark.addArtifacts(*archives, pyfile=True)

    def _dealt(self, requests: pa.Table) -> DataFrame:
        """Return the requests with one partition per chunk."""
        chunks = requests.column(0).chunks
        place = pa.array([index for index, chunk in enumerate(chunks) for _ in range(len(chunk))], pa.int32())
        frame: Any = self.spark.createDataFrame(requests.append_column("piece", place))
        if minor(str(self.spark.version)) >= (4, 1):
            frame = frame.repartitionById(len(chunks), "piece")
        else:  # nearly so: bounds are found by sampling
            frame = frame.repartitionByRange(len(chunks), "piece")
        dealt: DataFrame = frame.select(*requests.column_names)
        return dealt


def require_version(server: str, client: str) -> None:
    """Check that a client can work with a server: same major version, and not newer.

    Spark keeps servers compatible with older clients, not the other way round
    (https://spark.apache.org/docs/latest/spark-connect-overview.html).

    Raises:
        SparkLostError: It cannot; the message says what to install.
    """
    theirs, ours = minor(server), minor(client)
    if theirs[:1] != ours[:1] or theirs < ours:
        wanted = ".".join(str(part) for part in theirs)
        raise SparkLostError(
            f"the Spark Connect server runs Spark {server}, this client PySpark {client}, which is not compatible: "
            f"install pyspark[connect]=={wanted}.* here, or upgrade the server"
        )


def address(url: str) -> str:
    """Return a Spark Connect URL without its parameters, one of which may be a token."""
    return url.partition("/;")[0]
