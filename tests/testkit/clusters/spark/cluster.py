"""A Spark standalone cluster of one core per worker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.request import urlopen

from flink_autoscaler.pipeline.spark.settings import SparkSettings
from testkit.clusters.flink.guard import Guard
from testkit.clusters.flink.process import FlinkProcess
from testkit.clusters.flink.waiting import wait_until
from testkit.clusters.spark.launch import free_port, spark_class, wait_for_port
from testkit.processes import children_of, command_of

# A worker that was killed is given up after seconds instead of a minute; workers report four times in that time.
_SMALL: Final = {
    "SPARK_DAEMON_MEMORY": "192m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dspark.worker.timeout=8",
}


class SparkCluster:
    """A master and its workers, until the block ends.

    Args:
        workers: How many, each with one core.
    """

    def __init__(self, *, workers: int = 2) -> None:
        self._count = workers
        self.workers: list[FlinkProcess] = []

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="spark-cluster-"))
        self._guard = Guard(remove=self.folder)
        self._port, self._page = free_port(), free_port()
        try:
            self.master = self._master()
            for _ in range(self._count):
                self.add_worker()
            self.wait_for_workers(self._count)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def url(self) -> str:
        """Return the master's URL."""
        return f"spark://127.0.0.1:{self._port}"

    def settings(self, python: Path) -> SparkSettings:
        """Return settings for a driver of ours, and the interpreter of its executors."""
        conf = {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "480m",
            "spark.pyspark.python": str(python),
        }
        return SparkSettings(master=self.url, conf=conf)

    def options(self, python: Path, archive: Path) -> dict[str, str]:
        """Return the options of a daemon that evaluates here, with the interpreter and the files of its executors."""
        place = {"autoscaler.engine.spark-master": self.url, "autoscaler.engine.python-files": str(archive)}
        conf = self.settings(python).conf
        return place | {f"autoscaler.engine.spark-config.{key}": text for key, text in conf.items()}

    def restart_master(self) -> None:
        """Kill the master, which forgets everything, and start another one at its place; workers come back to it."""
        self.master.kill()
        self.master = self._master()
        self.wait_for_workers(sum(worker.is_running for worker in self.workers))

    def add_worker(self) -> FlinkProcess:
        """Start another worker."""
        number = len(self.workers)
        place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--work-dir", str(self.folder / "work")]
        resources = ["--cores", "1", "--memory", "600m"]
        arguments = ["org.apache.spark.deploy.worker.Worker", *place, *resources, self.url]
        self.workers.append(spark_class(f"worker-{number}", arguments, self.folder, self._guard, _SMALL))
        return self.workers[-1]

    def wait_for_workers(self, count: int) -> None:
        """Wait until exactly so many workers are alive in the eyes of the master."""
        wait_until(f"{count} workers", lambda: self._alive() == count, 300, context=self.master.log_tail)

    def executors(self) -> list[int]:
        """Return the process ids of the executors that run on the workers."""
        return [pid for worker in self.workers if worker.is_running for pid in _children(worker.pid)]

    def wait_for_executors(self, count: int) -> None:
        """Wait until exactly so many executors run."""
        wait_until(f"{count} executors", lambda: len(self.executors()) == count, 300, context=self.master.log_tail)

    def kill_executor(self) -> None:
        """Kill one executor, as a lack of memory would."""
        os.kill(self.executors()[0], signal.SIGKILL)

    def tasks_begun(self) -> int:
        """Return how many tasks executors have begun."""
        return self.executor_output().count("Got assigned task")

    def executor_output(self) -> str:
        """Return what executors wrote to their standard error."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("work/*/*/stderr")))

    def _master(self) -> FlinkProcess:
        place = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._page)]
        arguments = ["org.apache.spark.deploy.master.Master", *place]
        master = spark_class("master", arguments, self.folder, self._guard, _SMALL)
        for port in (self._port, self._page):
            wait_for_port(master, port)
        return master

    def _alive(self) -> int:
        try:
            with urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=10) as answer:
                state: dict[str, Any] = json.load(answer)
        except (OSError, ValueError):  # a master that is starting has no such page yet, or another one in its place
            return -1
        return sum(worker["state"] == "ALIVE" for worker in state["workers"])

    def _stop(self) -> None:
        for process in [*self.workers, self.master]:
            process.stop()
        self._guard.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _children(pid: int) -> list[int]:
    """Return the direct children of a process that are executors (Linux)."""
    return [child for child in children_of(pid) if b"ExecutorBackend" in command_of(child)]
