"""A job of a real Flink 2.3 that reads Kafka with Flink's own connector, and what writes the records that it reads."""

from __future__ import annotations

import hashlib
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Producer

from testkit.clusters.flink.cache import cache_directory, make_once, say
from testkit.clusters.flink.distribution import distribution
from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.java import tool
from testkit.clusters.flink.reporter import ReportingCluster

VERSION: Final = "2.3"
CONNECTOR: Final = "flink-connector-kafka-5.0.0-2.2"
ENTRY_CLASS: Final = "flinkcluster.KafkaJob"
SOURCE_VERTEX: Final = "Source: orders"
WORK_VERTEX: Final = "work"

_HERE: Final = Path(__file__).parent
_WORK: Final = _HERE.parents[1] / "clusters" / "flink" / "job"
_KEYS: Final = 10_000
_TICK: Final = 0.05


class KafkaReadingCluster(ReportingCluster):
    """A session cluster with the Kafka connector on its class path, whose processes export their metrics."""

    def __init__(self, **more: Any) -> None:
        super().__init__(VERSION, **more)

    def class_path(self) -> str:
        """Return Flink, the reporter and the connector."""
        return ":".join([super().class_path(), *map(str, connector_jars())])


def connector_jars() -> list[Path]:
    """Return the connector and what it needs, fetched from Maven Central on first use.

    Raises:
        HarnessError: Maven cannot fetch them.
    """
    folder = make_once(cache_directory() / CONNECTOR, _fetch)
    return sorted(jar for jar in folder.glob("*.jar") if not jar.name.startswith("slf4j"))


def _fetch(into: Path) -> None:
    say(f"downloading {CONNECTOR} (once)")
    command = ["mvn", "-q", "-B", "-f", str(_HERE / "pom.xml"), "dependency:copy-dependencies"]
    _run([*command, f"-DoutputDirectory={into}"])


def job_jar() -> Path:
    """Return the job's jar, compiling it if its source has changed."""
    sources = [_HERE / "KafkaJob.java", *sorted(_WORK.glob("*.java"))]
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    target = cache_directory() / f"kafka-job-{distribution(VERSION).release}-{digest}"
    return make_once(target, lambda into: _compile(sources, into)) / "kafka-job.jar"


def _compile(sources: list[Path], into: Path) -> None:
    say(f"compiling {ENTRY_CLASS}")
    class_path = ":".join([distribution(VERSION).class_path, *map(str, connector_jars())])
    paths = [str(source) for source in sources]
    _run([str(tool("javac")), "-nowarn", "-cp", class_path, "-d", str(into / "classes"), *paths])
    _run([str(tool("jar")), "--create", "--file", str(into / "kafka-job.jar"), "-C", str(into / "classes"), "."])


def _run(command: list[str]) -> None:
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500)
    if result.returncode:
        raise HarnessError(f"{Path(command[0]).name} failed:\n{result.stdout[-2000:]}{result.stderr[-4000:]}")


def submit(cluster: KafkaReadingCluster, name: str, bootstrap: str, topic: str, group: str, cost_micros: int) -> str:
    """Run the job; return its id when all its subtasks run.

    Args:
        cluster: A running one.
        name: Of the job.
        bootstrap: Brokers.
        topic: That it reads.
        group: Consumer group whose offsets it commits; among the job's global parameters, too.
        cost_micros: Busy time of the work vertex per record.
    """
    arguments = [name, bootstrap, topic, group, str(cost_micros)]
    job_id = cluster.upload_and_run(job_jar(), entry_class=ENTRY_CLASS, args=arguments)
    cluster.wait_for_running(job_id)
    return job_id


class Arriving:
    """Writes records to all partitions of a topic by turns while open.

    Attributes:
        rate: Records/s; may be changed meanwhile.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: float) -> None:
        self.rate = rate
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self._topic = topic
        self._partitions = partitions
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush(10)

    def _write(self) -> None:
        written, owed, last = 0, 0.0, time.monotonic()
        while not self._ended.wait(_TICK):
            now = time.monotonic()
            owed, last = owed + self.rate * (now - last), now
            for _ in range(int(owed)):
                value = str(written % _KEYS).encode()
                self._producer.produce(self._topic, value, partition=written % self._partitions)
                written += 1
            owed -= int(owed)
            self._producer.poll(0)
