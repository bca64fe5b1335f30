"""The daemon as a process: configured by a file that a test changes while it runs, or on a database by ``--set``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final, Self

from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.builders.forked_command import run_command, start_command
from testkit.clusters.flink.waiting import wait_until
from testkit.processes import children_of, name_of

QUICK: Final[Mapping[str, str]] = {
    "autoscaler.engine.kind": "inline",
    "autoscaler.http.port": "0",
    "autoscaler.log.format": "json",
    "autoscaler.loop.shutdown-grace": "5 s",
    "autoscaler.standalone.control-loop.interval": "100 ms",
    "job.autoscaler.enabled": "true",
}
RESCALING: Final[Mapping[str, str]] = {
    **QUICK,
    "job.autoscaler.metrics.window": "300 ms",
    "job.autoscaler.stabilization.interval": "0 s",
    "job.autoscaler.scale-down.interval": "0 s",
    "job.autoscaler.restart.time": "1 s",
    "job.autoscaler.catch-up.duration": "0 s",
    "job.autoscaler.vertex.max-parallelism": "8",
    "job.autoscaler.rescale-filters.enabled": "false",
    "job.autoscaler.flink.rest-client.timeout": "500 ms",
    "autoscaler.standalone.state-store.type": "JDBC",
    "autoscaler.standalone.event-handler.type": "JDBC",
}
"""A loop fast enough for many rescales within seconds."""

_UNFILTERED: Final = "job.autoscaler.rescale-filters.enabled"
_LAST_RELEASE: Final = {"job.autoscaler.improvement.calm" if k == _UNFILTERED else k: v for k, v in RESCALING.items()}
"""The same in the words of the last release."""

PRESENT: Final = (sys.executable, "-m", "flink_autoscaler.standalone")
"""The program as it is checked out."""


def _is_present(program: Sequence[str]) -> bool:
    """Tell whether a program is of this version: as checked out, or in an environment that is called after it."""
    return program is PRESENT or Path(program[0]).parents[1].name == version("flink-autoscaler")


class DaemonProcess:
    """One run of the daemon at a time, with a service manager that listens; the log of all runs is one file.

    Args:
        folder: For configuration and log.
        name: Of the log file.
        file: The configuration; one in the folder unless given.
        database: Where state, events and lease are; with it the configuration is no file, but quick options.
        cluster_url: The only cluster, beside a database.
        options: Further options, or others than the quick ones, beside a database.
        program: The command, such as that of an installed version.

    Attributes:
        environment: Of the process, and of commands that are to find what it keeps.
        pids: Process ids of all runs.
    """

    def __init__(
        self,
        folder: Path,
        name: str = "daemon",
        *,
        file: Path | None = None,
        database: DatabaseSettings | None = None,
        cluster_url: str = "",
        options: Mapping[str, str] | None = None,
        program: Sequence[str] = PRESENT,
    ) -> None:
        self.file = file or folder / "autoscaler.yaml"
        self._program = program
        self._log = folder / f"{name}.log"
        self._log.touch()
        self._begin = 0
        self._systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._systemd.bind("")  # an abstract address that the kernel chooses
        self._systemd.setblocking(False)
        self._messages: list[str] = []
        self._process: subprocess.Popen[bytes] | BaseProcess | None = None
        self.pids: list[int] = []
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("AUTOSCALER", "FLINK"))},
            **({"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} if program is PRESENT else {}),
            "NOTIFY_SOCKET": f"@{self._systemd.getsockname()[1:].decode()}",
        }
        if database is None:
            self._arguments = ["--config", str(self.file)]
            self.environment["STATE_DIRECTORY"] = str(folder / f"{name}.state")
            return
        values = {
            **(RESCALING if _is_present(program) else _LAST_RELEASE),
            "autoscaler.clusters.0.name": "main",
            "autoscaler.clusters.0.url": cluster_url,
            "autoscaler.standalone.jdbc.url": database.url,
            **({"autoscaler.standalone.jdbc.username": database.username} if database.username else {}),
            **(options or {}),
        }
        self._arguments = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
        self.environment["JDBC_PWD"] = database.password or ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.kill()
        self._systemd.close()

    def configure(self, clusters: Mapping[str, str], **options: str) -> None:
        """Write the file: clusters by name with their URLs, and further options with ``__`` for a dot."""
        values = {**QUICK, **{key.replace("__", "."): value for key, value in options.items()}}
        for number, (name, url) in enumerate(clusters.items()):
            values |= {f"autoscaler.clusters.{number}.name": name, f"autoscaler.clusters.{number}.url": url}
        # JSON is YAML; the replacement is atomic.
        draft = self.file.with_suffix(".draft")
        draft.write_text(json.dumps(values))
        draft.replace(self.file)

    def start(self, *, wait: bool = True) -> None:
        """Start a run; with ``wait`` return once it is ready."""
        self._begin = self._log.stat().st_size
        self.messages().clear()
        arguments = ["run", *self._arguments]
        if self._program is PRESENT and "LD_PRELOAD" not in self.environment:
            self._process = start_command(arguments, self.environment, (self._log, self._log))
        else:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [*self._program, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
        assert self._process.pid is not None
        self.pids.append(self._process.pid)
        if wait:
            self.wait_for("readiness", self._is_ready)

    def _is_ready(self) -> bool:
        is_running = self.is_running
        is_ready = any(message.startswith("READY=1") for message in self.messages())
        assert is_ready or is_running, self.text()[-6000:]
        return is_ready

    def call(self, *words: str, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
        """Run another command of the same program with the same configuration to its end."""
        arguments = [*words, *self._arguments]
        if self._program is PRESENT:
            return run_command(arguments, self.environment, timeout=timeout)
        return subprocess.run(
            [*self._program, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def order(self, *words: str, code: int = 0) -> str:
        """Run a command that has to end with a code, and return all that it printed."""
        done = self.call(*words)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def take_state_of(self, other: DaemonProcess) -> None:
        """Work with the state that another run has left, once that has ended."""
        self.environment["STATE_DIRECTORY"] = other.environment["STATE_DIRECTORY"]

    @property
    def pid(self) -> int:
        """Process id of the present or last run."""
        return self.pids[-1]

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and _code(self._process) is None

    def children(self, name: str) -> list[int]:
        """Return the ids of its child processes with a name, such as ``java``."""
        return [child for child in children_of(self.pid) if name_of(child) == name]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the run."""
        assert self.is_running
        os.kill(self.pid, number)

    def reload(self) -> None:
        """Have the configuration read again and wait until that is done."""
        before = len(self.lines("reloaded") + self.lines("reload_refused"))
        self.send(signal.SIGHUP)
        self.wait_for("reload", lambda: len(self.lines("reloaded") + self.lines("reload_refused")) > before)

    def kill(self) -> None:
        """End the run at once, whatever it is doing."""
        self.send(signal.SIGKILL)
        self.exit_code()

    def stop(self, timeout: float = 300.0) -> int:
        """End the run in order and return its exit code."""
        self.send(signal.SIGTERM)
        return self.exit_code(timeout=timeout)

    def exit_code(self, timeout: float = 300.0) -> int:
        """Wait for the run to end and return its exit code; the end of the log is in the error."""
        self.wait_for("the end of the run", lambda: not self.is_running, timeout=timeout)
        assert self._process is not None
        code = _code(self._process)
        assert code is not None
        return code

    def text(self) -> str:
        """Return what the run has written so far."""
        with self._log.open("rb") as file:
            file.seek(self._begin)
            return file.read().decode(errors="replace")

    def lines(self, *events: str) -> list[dict[str, Any]]:
        """Return the log lines of an event of this run; an older version may call it otherwise."""
        mentioning = [line for line in self.text().splitlines() if any(f'"{event}"' in line for event in events)]
        found = [json.loads(line) for line in mentioning if line.startswith("{") and line.endswith("}")]
        return [line for line in found if line.get("event") in events]

    def messages(self) -> list[str]:
        """Return what the service manager was told in this run so far."""
        while True:
            try:
                self._messages.append(self._systemd.recv(8192).decode())
            except BlockingIOError:
                return self._messages

    def is_holding(self, number: signal.Signals) -> bool:
        """Tell whether the process keeps a signal for later, and thus runs our code."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        held = next(line for line in status.splitlines() if line.startswith("SigBlk:"))
        return bool(int(held.split()[1], 16) >> (number - 1) & 1)

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of a page of this run."""
        (line,) = self.lines("http_listening")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{line['url']}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def page(self, path: str) -> str:
        """Return the text of a page, whatever its status."""
        return self.get(path)[1]

    def ready_clusters(self) -> set[str]:
        """Return the clusters that the readiness page says are ready."""
        clusters = json.loads(self.page("/readyz"))["clusters"]
        return {name for name, cluster in clusters.items() if cluster["ready"]}

    def passes(self) -> float:
        """Return how many passes of this run have ended."""
        lines = self.page("/metrics").splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("flink_autoscaler_passes_total"))

    def wait_for_passes(self, count: int, *, timeout: float = 300.0) -> None:
        """Wait until so many more passes have ended."""
        end = self.passes() + count
        self.wait_for(f"{count} passes", lambda: self.passes() >= end, timeout=timeout)

    def wait_for(self, description: str, probe: Any, *, timeout: float = 300.0) -> Any:
        """Wait until something holds; the end of the log is in the error."""
        return wait_until(description, probe, timeout, interval=0.02, context=lambda: self.text()[-6000:])


def _code(process: subprocess.Popen[bytes] | BaseProcess) -> int | None:
    return process.poll() if isinstance(process, subprocess.Popen) else process.exitcode


__all__ = ["PRESENT", "QUICK", "RESCALING", "DaemonProcess"]
