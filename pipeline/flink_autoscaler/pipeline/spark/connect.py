"""A session on a Spark Connect server (``sc://``), for analytics; needs the ``connect`` extra."""

from __future__ import annotations

import contextlib
import logging
import warnings
from typing import Final

import pyspark
import structlog
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

from flink_autoscaler.pipeline.spark.executors import pack_ours, require_executors
from flink_autoscaler.pipeline.spark.scratch import Scratch
from flink_autoscaler.pipeline.spark.settings import COMMON, SparkSettings
from flink_autoscaler.pipeline.spark.supply import SparkLostError, call_with_timeout, reason_of

RETRIES: Final = DefaultPolicy(max_retries=5, max_backoff=2000)
"""About 5 s altogether. By default a client asks a server that is gone for ten minutes."""

STOP_SECONDS: Final = 3.0
"""How long the server may take to end a session before it is left to its own clean-up."""

_SLOTS: Final = "SELECT count(DISTINCT place) FROM (SELECT spark_partition_id() AS place FROM range(10000))"
"""A range has as many partitions as Spark has task slots, unless the server is configured otherwise."""

_log = structlog.get_logger(__name__)


class ConnectSession:
    """A session of a Spark Connect server (an ``OpenSession``)."""

    def __init__(self, settings: SparkSettings) -> None:
        """Connect, ship our code, and see whether executors can run it.

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
            self._slots = max(1, int(self.spark.sql(_SLOTS).collect()[0][0]))
            with Scratch() as scratch:
                archives = settings.python_files or [str(pack_ours(scratch.path / "flink-autoscaler.zip"))]
                self.spark.addArtifacts(*archives, pyfile=True)
            require_executors(self.spark, self._slots, timeout=settings.executors_timeout)
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

    def close(self) -> None:
        """End the session within bounded time; the server goes on. Never raises."""
        with contextlib.suppress(Exception):
            call_with_timeout(STOP_SECONDS, self.spark.stop)

    def kill(self) -> None:
        """End a session that is lost, without waiting for Spark to help. Never raises."""
        self.close()

    def _configure(self, settings: SparkSettings) -> None:
        for key, value in {**COMMON, **settings.conf}.items():
            try:
                self.spark.conf.set(key, value)
            except Exception as exc:  # only the one who starts the server can set it
                _log.warning("spark_setting_ignored", key=key, reason=reason_of(exc))


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


def minor(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, such as (4, 1) for 4.1.0-SNAPSHOT; fewer where it has fewer."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def address(url: str) -> str:
    """Return a Spark Connect URL without its parameters, one of which may be a token."""
    return url.partition("/;")[0]
