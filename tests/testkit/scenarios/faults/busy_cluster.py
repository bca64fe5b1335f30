"""A fake Flink cluster in a process of its own, with a job whose load goes up and down."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from testkit.clusters.flink.waiting import wait_until


@dataclass(frozen=True)
class Put:
    """A request for another parallelism, as it arrived.

    Attributes:
        at: Epoch seconds.
        address: Number of the address, which is the number of the daemon.
        wanted: Upper bound per vertex.
        job: Name of the job.
    """

    at: float
    address: int
    wanted: Mapping[str, int]
    job: str


ONE_JOB: Final[Mapping[str, Mapping[str, str]]] = {"orders": {}}


class BusyCluster:
    """Starts the process and reads what it wrote down.

    Args:
        folder: For the log.
        addresses: How many URLs the cluster has.
        period: Seconds from one load to the next.
        jobs: Their configuration by name.
    """

    def __init__(
        self,
        folder: Path,
        *,
        addresses: int = 1,
        period: float = 1.0,
        jobs: Mapping[str, Mapping[str, str]] = ONE_JOB,
    ) -> None:
        self._log = folder / "puts.jsonl"
        self._log.touch()
        command = [
            sys.executable,
            "-m",
            "testkit.fakes.flink.busy",
            str(self._log),
            str(addresses),
            str(period),
            json.dumps(jobs),
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
        )
        assert self._process.stdout is not None
        self.urls: Sequence[str] = json.loads(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(300)

    def puts(self) -> list[Put]:
        """Return all PUTs so far, in the order of their arrival."""
        whole_lines = self._log.read_text().splitlines()
        return [Put(**json.loads(line)) for line in whole_lines]

    def wait_for_puts(
        self, count: int, *, timeout: float = 300.0, job: str | None = None, context: Callable[[], str] = str
    ) -> None:
        """Wait until so many more PUTs have arrived, for one job or for any; an error ends with the context."""

        def arrived() -> int:
            return sum(job in (None, put.job) for put in self.puts())

        before = arrived()
        description = f"{count} PUTs for {job or 'any job'}"
        wait_until(description, lambda: arrived() >= before + count, timeout, interval=0.02, context=context)
