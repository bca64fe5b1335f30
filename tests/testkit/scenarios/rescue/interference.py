"""What gets in the way of a rescale: other people's requests, a JobManager that is restarted; and who sent what."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from testkit.clusters.flink import FlinkCluster
from testkit.clusters.flink.configuration import LOOPBACK, free_ports
from testkit.clusters.flink.distribution import distribution
from testkit.clusters.flink.guard import Guard
from testkit.clusters.flink.java import MODULE_OPTIONS, SLIM_OPTIONS, tool, write_logging
from testkit.clusters.flink.process import FlinkProcess
from testkit.clusters.flink.waiting import wait_until
from testkit.scenarios.faults import StallingProxy

_REQUEST_LINE: Final = re.compile(rb"(?:^|\n|\})([A-Z]{3,7}) (/\S*) HTTP/1\.1\r\n")
_LONGEST_LINE: Final = 16_384
_QUORUM_PEER: Final = "org.apache.flink.runtime.zookeeper.FlinkZooKeeperQuorumPeer"


@dataclass(frozen=True)
class Sent:
    """One request as it went over the wire; ``at`` by the monotonic clock."""

    at: float
    method: str
    path: str


class RequestLog(StallingProxy):
    """A TCP proxy in front of a JobManager that writes down every request line; a context manager.

    Args:
        url: Of the JobManager, ``http://127.0.0.1:port``.

    Attributes:
        sent: Requests in the order of their arrival.
    """

    def __init__(self, url: str) -> None:
        super().__init__(int(url.rpartition(":")[2]))
        self.sent: list[Sent] = []

    @property
    def url(self) -> str:
        """Address of the proxy."""
        return f"http://{LOOPBACK}:{self.port}"

    def methods(self) -> set[str]:
        """Return the methods of all requests so far."""
        return {each.method for each in self.sent}

    def changes(self, *, since: float = 0.0) -> list[Sent]:
        """Return the requests that may change something, from an instant of the monotonic clock on."""
        return [each for each in self.sent if each.method != "GET" and each.at >= since]

    def _of_client(self) -> Callable[[bytes], Awaitable[None]]:
        pending = b""

        async def note(data: bytes) -> None:
            nonlocal pending
            pending += data
            for found in _REQUEST_LINE.finditer(pending):
                self.sent.append(Sent(time.monotonic(), found[1].decode(), found[2].decode()))
            pending = _after_last_line(pending)

        return note


def _after_last_line(pending: bytes) -> bytes:
    """Keep what may be the beginning of a request line whose end has not arrived yet."""
    *_, last = (0, *(found.end() for found in _REQUEST_LINE.finditer(pending)))
    return pending[last:][-_LONGEST_LINE:]


@dataclass(frozen=True)
class HeldBounds:
    """Upper bounds per vertex name, and since when the cluster has them, by the monotonic clock."""

    since: float
    upper: dict[str, int]


class RequirementsWatch:
    """Looks ten times a second which parallelism a cluster is asked for; a context manager.

    Attributes:
        seen: What the cluster had, one after the other; a gap in its answers changes nothing.
    """

    def __init__(self, cluster: FlinkCluster, job_id: str) -> None:
        self._cluster = cluster
        self._job_id = job_id
        self._names = {vertex["id"]: name for name, vertex in cluster.rest.vertices(job_id).items()}
        self.seen: list[HeldBounds] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="requirements-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def since(self, instant: float) -> list[dict[str, int]]:
        """Return what the cluster came to have after an instant."""
        return [each.upper for each in self.seen if each.since >= instant]

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            answer = self._cluster.rest.reachable(f"/jobs/{self._job_id}/resource-requirements")
            if answer is None:
                continue
            upper = {self._names[key]: int(each["parallelism"]["upperBound"]) for key, each in answer.items()}
            if not self.seen or self.seen[-1].upper != upper:
                self.seen.append(HeldBounds(time.monotonic(), upper))


@contextlib.contextmanager
def high_availability(version: str, directory: Path) -> Iterator[dict[str, str]]:
    """Run the ZooKeeper that Flink brings along.

    Args:
        version: Of Flink.
        directory: For its data, and for what Flink keeps beside it.

    Yields:
        Flink options that make a cluster survive the end of its JobManager.
    """
    (port,) = free_ports(1)
    for part in ("zookeeper", "ha"):
        (directory / part).mkdir(parents=True)
    settings = directory / "zoo.cfg"
    settings.write_text(f"dataDir={directory / 'zookeeper'}\nclientPort={port}\nclientPortAddress={LOOPBACK}\n")
    with contextlib.ExitStack() as stack:
        guard = Guard(remove=None)
        stack.callback(guard.close)
        process = FlinkProcess("zookeeper", _quorum_peer(version, directory), directory / "zookeeper.log", guard)
        stack.callback(process.kill)
        wait_until("ZooKeeper listens", lambda: _listens(process, port), 300, context=process.log_tail)
        yield {
            "high-availability.type": "zookeeper",
            "high-availability.zookeeper.quorum": f"{LOOPBACK}:{port}",
            "high-availability.storageDir": (directory / "ha").as_uri(),
            "high-availability.zookeeper.client.session-timeout": "5s",
        }


def _quorum_peer(version: str, directory: Path) -> list[str]:
    logging = write_logging(directory)
    places = [f"-Dlog4j.configurationFile={logging.as_uri()}", f"-Dlog.file={directory / 'zookeeper.log'}"]
    java = [str(tool("java")), "-Xmx64m", *SLIM_OPTIONS, *MODULE_OPTIONS, "-Dzookeeper.admin.enableServer=false"]
    arguments = ["--zkConfigFile", str(directory / "zoo.cfg"), "--peerId", "1"]
    return [*java, *places, "-cp", distribution(version).class_path, _QUORUM_PEER, *arguments]


def _listens(process: FlinkProcess, port: int) -> bool:
    process.require_running()
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
        return True
    return False
