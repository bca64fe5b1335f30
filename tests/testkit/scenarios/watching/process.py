"""The daemon as a process with a configuration file that a test changes while it runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testkit.clusters.flink.waiting import wait_until
from testkit.processes import children_of, name_of

QUICK = {
    "autoscaler.engine.kind": "inline",
    "autoscaler.http.port": "0",
    "autoscaler.log.format": "json",
    "autoscaler.loop.shutdown-grace": "5 s",
    "autoscaler.standalone.control-loop.interval": "100 ms",
    "job.autoscaler.enabled": "true",
}


class DaemonProcess:
    """One run of the daemon, with a service manager that listens.

    Args:
        folder: For configuration and log.
        name: Of the log file.
        file: The configuration; one in the folder unless given.

    Attributes:
        environment: Of the process, and of commands that are to find what it keeps.
    """

    def __init__(self, folder: Path, name: str = "daemon", *, file: Path | None = None) -> None:
        self.file = file or folder / "autoscaler.yaml"
        self._log = folder / f"{name}.log"
        self._log.touch()
        self._systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._systemd.bind(str(folder / f"{name}.notify"))
        self._systemd.setblocking(False)
        self._messages: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("AUTOSCALER", "FLINK"))},
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "NOTIFY_SOCKET": str(folder / f"{name}.notify"),
            "STATE_DIRECTORY": str(folder / f"{name}.state"),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)
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
        """Start; with ``wait`` return once it is ready."""
        command = [sys.executable, "-m", "flink_autoscaler.standalone", "run", "--config", str(self.file)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        if wait:
            self.wait_for("readiness", lambda: any(message.startswith("READY=1") for message in self.messages()))

    def take_state_of(self, other: DaemonProcess) -> None:
        """Work with the state that another run has left, once that has ended."""
        self.environment["STATE_DIRECTORY"] = other.environment["STATE_DIRECTORY"]

    def children(self, name: str) -> list[int]:
        """Return the ids of its child processes with a name, such as ``java``."""
        assert self._process is not None
        return [child for child in children_of(self._process.pid) if name_of(child) == name]

    @property
    def pid(self) -> int:
        """Process id of the run."""
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, by itself or not."""
        return self._process is not None and self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def reload(self) -> None:
        """Have the configuration read again and wait until that is done."""
        before = len(self.lines("reloaded") + self.lines("reload_refused"))
        self.send(signal.SIGHUP)
        self.wait_for("reload", lambda: len(self.lines("reloaded") + self.lines("reload_refused")) > before)

    def stop(self, timeout: float = 300.0) -> int:
        """End in order and return the exit code."""
        self.send(signal.SIGTERM)
        return self.exit_code(timeout)

    def exit_code(self, timeout: float = 300.0) -> int:
        """Wait for the end and return the exit code."""
        assert self._process is not None
        return self._process.wait(timeout)

    def text(self) -> str:
        """Return everything that was written."""
        return self._log.read_text()

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines of one event."""
        found = [json.loads(line) for line in self.text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in found if line["event"] == event]

    def messages(self) -> list[str]:
        """Return what the service manager was told so far."""
        while True:
            try:
                self._messages.append(self._systemd.recv(8192).decode())
            except BlockingIOError:
                return self._messages

    def is_holding(self, number: signal.Signals) -> bool:
        """Tell whether the process keeps a signal for later, and thus runs our code."""
        assert self._process is not None
        held = next(line for line in self._status().splitlines() if line.startswith("SigBlk:"))
        return bool(int(held.split()[1], 16) >> (number - 1) & 1)

    def _status(self) -> str:
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/status").read_text()

    def page(self, path: str) -> str:
        """Return the text of a page, whatever its status."""
        (line,) = self.lines("http_listening")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{line['url']}{path}", timeout=60) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def ready_clusters(self) -> set[str]:
        """Return the clusters that the readiness page says are ready."""
        clusters = json.loads(self.page("/readyz"))["clusters"]
        return {name for name, cluster in clusters.items() if cluster["ready"]}

    def wait_for(self, description: str, probe: Callable[[], object]) -> None:
        """Wait until something holds; the end of the log is in the error."""
        wait_until(description, probe, 300, interval=0.02, context=lambda: self.text()[-6000:])


__all__ = ["QUICK", "DaemonProcess"]
