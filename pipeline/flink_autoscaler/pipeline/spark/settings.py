"""Settings of Spark: a small footprint for an embedded Spark, and what suits the others.

A session is an embedded Spark (``local[*]``), a driver in this process with executors elsewhere (any other master URL),
or a client of a Spark Connect server (``sc://``).
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import flink_autoscaler

CONNECT_PREFIX: Final = "sc://"
LOCAL_PREFIX: Final = "local"
YARN: Final = "yarn"

WORKER_DAEMON: Final = "flink_autoscaler.pipeline.spark.worker_daemon"

MOST_SLOTS: Final = 8
"""Of an embedded Spark, unless the machine has more cores: each has a Python worker of 150 MB."""

_JVM_OPTIONS: Final = "-XX:+UseSerialGC -Xss1m -XX:+ExitOnOutOfMemoryError -XX:-UsePerfData"
"""For a small JVM: one collector thread, and no figures for tools of the JDK, which wake it twenty times a second. One
that ran out of memory goes on without some of its threads and answers nothing any more: better it ends, and another one
is started."""

_QUICK_COMPILER: Final = " -XX:TieredStopAtLevel=1"
"""For short plans; the better compiler takes more time than it saves there."""

COMMON: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # The encoded jobs travel as the byte arrays they are; as a local relation they are copied row by row.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
}
"""What every session has, that of a Spark Connect server too."""

_DRIVER: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.scheduler.mode": "FAIR",
    # A long-running driver would remember the plans of all passes.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.cleaner.periodicGC.interval": "15min",
    # Hadoop itself tries a store that is away for two to ten minutes before it says so, and meanwhile nobody knows.
    "spark.hadoop.fs.s3a.attempts.maximum": "2",
    "spark.hadoop.fs.s3a.retry.limit": "2",
    "spark.hadoop.fs.s3a.connection.establish.timeout": "5s",
    "spark.hadoop.fs.s3a.connection.timeout": "20s",
}
_EMBEDDED: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": _JVM_OPTIONS,
}


@dataclass(frozen=True)
class SparkSettings:
    """Settings of Spark.

    Attributes:
        master: ``local[*]``, ``local[n]``, ``yarn``, any other master URL, or a Spark Connect URL (``sc://host:port``).
        driver_memory: Heap of the driver's JVM; Spark accepts no less than about 460m.
        concurrent_passes: Clusters that are evaluated at the same time. An embedded ``local[*]`` gets as many times the
            machine's cores as task slots, up to ``MOST_SLOTS``, so that a cluster that hangs leaves the others theirs.
        partitions: Tasks per pass at most; None takes a share of the task slots that leaves other passes theirs.
        python_files: Archives for the executors of a real cluster, ours (``make pyfiles``) among them. Empty packs our
            own code as this process runs it. Libraries are not in them: they have to be there.
        cut_after: Seconds that a cluster may take in a Spark job that it shares with others.
        executors_timeout: Seconds that the executors of a real cluster may take to run a first task, and YARN before
            that to start the application.
        is_long: Whether plans run over so many rows that the better compiler of an embedded Spark's JVM pays.
        conf: Spark's own configuration, on top of ours.
    """

    master: str = "local[*]"
    app_name: str = "flink-autoscaler"
    driver_memory: str = "480m"
    concurrent_passes: int = 1
    partitions: int | None = None
    python_files: tuple[str, ...] = ()
    cut_after: float = 5.0
    executors_timeout: float = 120.0
    is_long: bool = False
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_connect(self) -> bool:
        """True when a Spark Connect server does the work."""
        return self.master.startswith(CONNECT_PREFIX)

    @property
    def is_embedded(self) -> bool:
        """True when everything runs on this machine, started by us."""
        return self.master.startswith(LOCAL_PREFIX)

    @property
    def is_yarn(self) -> bool:
        """True when YARN gives the executors."""
        return self.master == YARN


def spark_conf(settings: SparkSettings, scratch: Path) -> dict[str, str]:
    """Return the configuration of a driver of ours, which writes to the folder ``scratch`` only."""
    conf = {
        **COMMON,
        **_DRIVER,
        "spark.master": _master(settings),
        "spark.app.name": settings.app_name,
        "spark.driver.memory": settings.driver_memory,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    if settings.is_embedded:
        conf |= _EMBEDDED
        conf["spark.driver.extraJavaOptions"] += "" if settings.is_long else _QUICK_COMPILER
        conf["spark.driver.extraJavaOptions"] += f" -Djava.io.tmpdir={scratch}"
        if (user := made_up_user()) is not None:
            conf["spark.driver.extraJavaOptions"] += f" -Duser.home={scratch} -Duser.name={user}"
        conf["spark.jars.ivy"] = str(scratch / "ivy")
        conf["spark.pyspark.python"] = sys.executable
        conf["spark.executorEnv.PYTHONPATH"] = source_path()
        conf["spark.python.daemon.module"] = WORKER_DAEMON
    elif settings.python_files:
        conf["spark.submit.pyFiles"] = ",".join(settings.python_files)
    return {**conf, **settings.conf}


def jvm_variables(settings: SparkSettings) -> dict[str, str]:
    """Return environment variables for the JVM of a driver.

    An embedded Spark keeps to the loopback, so that the machine's own name need not resolve; whoever set a variable
    keeps it.
    """
    if not settings.is_embedded:
        return {}
    wanted = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
    if (user := made_up_user()) is not None:
        wanted |= {"SPARK_USER": user, "HADOOP_USER_NAME": user}
    return {name: value for name, value in wanted.items() if name not in os.environ}


def made_up_user() -> str | None:
    """Return a name for a user that has none, because passwd has no entry for it; None for all others.

    Hadoop's libraries in the JVM insist on a name, and Ivy on a home.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return f"user-{os.getuid()}"
    return None


def source_path() -> str:
    """Return the import roots of our packages, so that workers find them in a checkout, too."""
    return os.pathsep.join(os.path.dirname(part) for part in flink_autoscaler.__path__)


def _master(settings: SparkSettings) -> str:
    if settings.master == "local[*]" and settings.concurrent_passes > 1:
        cores = os.cpu_count() or 1
        return f"local[{max(cores, min(settings.concurrent_passes * cores, MOST_SLOTS))}]"
    return settings.master
