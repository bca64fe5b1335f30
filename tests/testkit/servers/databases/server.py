"""What the servers have in common."""

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.clusters.flink.guard import Guard
from testkit.clusters.flink.waiting import wait_until

USER = "autoscaler"
PASSWORD = "s3cret-of-the-tests"


class MissingServerError(Exception):
    """The server's programs are not installed."""


class DatabaseServer(ABC):
    """One server process; a context manager that starts it and removes everything afterwards."""

    scheme: str
    system_user: str
    stop_signal = signal.SIGTERM
    kill_signal = signal.SIGKILL

    def __init__(self, *options: str, is_durable: bool = False) -> None:
        """Prepare a server.

        Args:
            options: Added to its command line.
            is_durable: Force everything to disk, as servers do by default; tests need not.
        """
        self.options = options
        self.is_durable = is_durable
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.scheme}-"))
        self.port = _free_port()
        self._guard = Guard(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        try:
            if self.run_as is not None:
                shutil.chown(self.folder, self.run_as)
            self.prepare()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def prepare(self) -> None:
        """Make the data folder and the user."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command line of the server."""

    @abstractmethod
    def create_database(self, name: str) -> None:
        """Make an empty database."""

    @property
    def run_as(self) -> str | None:
        """The system user to run as; None for the current one. The servers refuse to run as root."""
        if os.geteuid() != 0:
            return None
        known = {entry.pw_name for entry in pwd.getpwall()}
        return self.system_user if self.system_user in known else "nobody"

    @property
    def pid(self) -> int:
        """Process id of the server."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server, on the same port as before, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command(), *self.options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._identity(),
                start_new_session=True,
            )
        self._guard.add(self.pid)
        wait_until(f"{self.scheme} answers", self._answers, 300, interval=0.05, context=self.log)

    def stop(self) -> None:
        """Stop the server in order, cutting off whoever is connected."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """Stop the server as a crash would."""
        self._end(self.kill_signal)

    def new_database(self) -> DatabaseSettings:
        """Make an empty database and tell how it is reached."""
        name = f"test_{next(self._numbers)}"
        self.create_database(name)
        return self.settings(name)

    def settings(self, name: str) -> DatabaseSettings:
        """Return how a database is reached."""
        return DatabaseSettings(self.url(name), USER, PASSWORD)

    def url(self, name: str) -> str:
        """Return the JDBC URL of a database."""
        return f"jdbc:{self.scheme}://127.0.0.1:{self.port}/{name}"

    def log(self) -> str:
        """Return the end of what the server wrote."""
        path = self.folder / "log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else "(none)"

    def close(self) -> None:
        """Stop the server and remove its data."""
        if self.is_running:
            self.stop()
        self._guard.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def give(self, path: Path) -> None:
        """Let only the server's user read a file."""
        path.chmod(0o600)
        if self.run_as is not None:
            shutil.chown(path, self.run_as)

    def run(self, *command: str) -> None:
        """Run a program of the server as its user."""
        identity = self._identity()
        ran = subprocess.run(command, check=False, capture_output=True, cwd=self.folder, timeout=120, **identity)
        assert ran.returncode == 0, f"{command[0]}: {(ran.stdout + ran.stderr).decode(errors='replace')[-4000:]}"

    def _identity(self) -> dict[str, Any]:
        """Return the arguments for a process that runs as the server's user."""
        if self.run_as is None:
            return {}
        entry = pwd.getpwnam(self.run_as)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}

    def _answers(self) -> bool:
        assert self.is_running, self.log()
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0 and self.is_ready()

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether the server accepts logins."""

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(60)
        self._guard.forget(self._process.pid)


def program(name: str, *folders: str) -> str:
    """Return the path of a program.

    Raises:
        MissingServerError: It is not installed.
    """
    path = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", *folders)))
    if path is None:
        raise MissingServerError(f"{name} is not installed")
    return path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
