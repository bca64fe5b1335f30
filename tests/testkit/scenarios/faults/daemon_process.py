"""A real daemon in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.clusters.flink.waiting import wait_until

QUICK = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.metrics.window": "300 ms",
    "job.autoscaler.stabilization.interval": "0 s",
    "job.autoscaler.scale-down.interval": "0 s",
    "job.autoscaler.restart.time": "1 s",
    "job.autoscaler.catch-up.duration": "0 s",
    "job.autoscaler.vertex.max-parallelism": "8",
    "job.autoscaler.rescale-filters.enabled": "false",
    "job.autoscaler.flink.rest-client.timeout": "500 ms",
    "autoscaler.engine.kind": "inline",
    "autoscaler.standalone.control-loop.interval": "100 ms",
    "autoscaler.standalone.state-store.type": "JDBC",
    "autoscaler.standalone.event-handler.type": "JDBC",
    "autoscaler.http.port": "0",
    "autoscaler.log.format": "json",
    "autoscaler.loop.shutdown-grace": "5 s",
}
"""A loop fast enough for many rescales within seconds."""

_UNFILTERED: Final = "job.autoscaler.rescale-filters.enabled"
_LAST_RELEASE: Final = {"job.autoscaler.improvement.calm" if k == _UNFILTERED else k: v for k, v in QUICK.items()}
"""The same in the words of the last release."""

PRESENT: Final = (sys.executable, "-m", "flink_autoscaler.standalone")
"""The program as it is checked out."""


def _is_present(program: Sequence[str]) -> bool:
    """Tell whether a program is of this version: as checked out, or in an environment that is called after it."""
    return program is PRESENT or Path(program[0]).parents[1].name == version("flink-autoscaler")


class DaemonProcess:
    """One run of the daemon at a time; the log of all runs is one file.

    Args:
        folder: For the log.
        name: Of the log file.
        database: Where state, events and lease are.
        cluster_url: The only cluster.
        options: Further options, or others than the quick ones.
        program: The command, such as that of an installed version.
    """

    def __init__(
        self,
        folder: Path,
        name: str = "daemon",
        *,
        database: DatabaseSettings,
        cluster_url: str,
        options: Mapping[str, str] | None = None,
        program: Sequence[str] = PRESENT,
    ) -> None:
        values = {
            **(QUICK if _is_present(program) else _LAST_RELEASE),
            "autoscaler.clusters.0.name": "main",
            "autoscaler.clusters.0.url": cluster_url,
            "autoscaler.standalone.jdbc.url": database.url,
            **({"autoscaler.standalone.jdbc.username": database.username} if database.username else {}),
            **(options or {}),
        }
        self._overrides = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
        self._program = program
        self._environment = {**os.environ, "JDBC_PWD": database.password or ""}
        self._log = folder / f"{name}.log"
        self._log.touch()
        self._process: subprocess.Popen[bytes] | None = None
        self._begin = 0
        self.pids: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_running:
            self.kill()

    @property
    def pid(self) -> int:
        """Process id of the present or last run."""
        return self.pids[-1]

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait: bool = True) -> None:
        """Start a run; with ``wait`` return once its passes have begun."""
        self._begin = self._log.stat().st_size
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command("run"), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )
        self.pids.append(self._process.pid)
        if wait:
            self.wait_for("passes", lambda: "watching 1 cluster" in self.text())

    def call(self, *words: str, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
        """Run another command of the same program with the same configuration to its end."""
        return subprocess.run(
            self._command(*words),
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """End the run at once, whatever it is doing."""
        self.signal(signal.SIGKILL)
        self._ended()

    def stop(self) -> int:
        """End the run in order and return its exit code."""
        self.signal(signal.SIGTERM)
        return self._ended()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the run."""
        assert self._process is not None
        self._process.send_signal(number)

    def exit_code(self, *, timeout: float = 300.0) -> int:
        """Wait for the run to end by itself and return its exit code; the end of the log is in the error."""
        process = self._process
        assert process is not None
        self.wait_for("the end of the run", lambda: process.poll() is not None, timeout=timeout)
        return int(process.returncode)

    def text(self) -> str:
        """Return what the run has written so far."""
        with self._log.open("rb") as file:
            file.seek(self._begin)
            return file.read().decode(errors="replace")

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines of one event of this run."""
        found = [json.loads(line) for line in self.text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in found if line.get("event") == event]

    def wait_for(self, description: str, probe: Any, *, timeout: float = 300.0) -> Any:
        """Wait until something holds; the end of the log is in the error."""
        return wait_until(description, probe, timeout, interval=0.02, context=lambda: self.text()[-6000:])

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of a page of this run."""
        (url,) = re.findall(r'"url": "([^"]+)"', self.text())[:1]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(url + path, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def passes(self) -> float:
        """Return how many passes of this run have ended."""
        lines = self.get("/metrics")[1].splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("flink_autoscaler_passes_total"))

    def wait_for_passes(self, count: int, *, timeout: float = 300.0) -> None:
        """Wait until so many more passes have ended."""
        end = self.passes() + count
        self.wait_for(f"{count} passes", lambda: self.passes() >= end, timeout=timeout)

    def _command(self, *words: str) -> list[str]:
        return [*self._program, *words, *self._overrides]

    def _ended(self) -> int:
        assert self._process is not None
        return self._process.wait(30)


def pause(seconds: float) -> None:
    """Let a daemon run for a random time before its end: the one thing that cannot be waited for."""
    time.sleep(seconds)
