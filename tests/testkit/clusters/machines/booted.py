"""A server with a real systemd: a Debian in a folder, booted in a container of systemd-nspawn."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from testkit.clusters.machines.errors import MachineError
from testkit.clusters.machines.roots import SERVICE, root, run
from testkit.processes import descendants_of

_START_TIMEOUT: Final = 240.0


class Server:
    """A booted server; made by :func:`booted_server`.

    Attributes:
        folder: Its file system, as far as it was changed or not.
        leader: Process id of its systemd, in whose namespaces commands run.
    """

    def __init__(self, folder: Path, leader: int, log: Path) -> None:
        self.folder = folder
        self.leader = leader
        self._log = log

    def command(self, *words: object) -> list[str]:
        """Return a command that runs on the server."""
        inside = [
            "nsenter",
            "--target",
            str(self.leader),
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--cgroup",
            "--root",
            "--wd",
        ]
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return [*inside, "env", "-i", path, "LANG=C.UTF-8", *(str(word) for word in words)]

    def run(self, *words: object, timeout: float = 300.0) -> str:
        """Run a program on the server; return what it printed, or raise :class:`MachineError`."""
        return run(self.command(*words), timeout=timeout)

    def code(self, *words: object, timeout: float = 300.0) -> int:
        """Run a program on the server; return its exit code."""
        command = self.command(*words)
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        ).returncode

    def restart(self, unit: str) -> None:
        """Start a unit anew, however often it was started lately; may raise :class:`MachineError`."""
        self.code("systemctl", "reset-failed", unit)
        self.run("systemctl", "restart", unit)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file of the server."""
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def remove(self, path: str) -> None:
        """Remove a file of the server; it may be gone."""
        (self.folder / path.lstrip("/")).unlink(missing_ok=True)

    def property(self, name: str, unit: str = "flink-autoscaler") -> str:
        """Return what systemd says of a unit, such as ``ActiveState``."""
        return self.run("systemctl", "show", "--value", "--property", name, unit).strip()

    def journal(self, unit: str = "flink-autoscaler") -> str:
        """Return what the journal has of a unit since the start."""
        return self.run("journalctl", "--no-pager", "--output", "cat", "--unit", unit)

    def wait_until(self, what: str, probe: Callable[[], object], timeout: float = 300.0) -> None:
        """Return when a probe is truthy; raise with the end of the journal when that takes too long."""
        deadline = time.monotonic() + timeout
        while not probe():
            if time.monotonic() > deadline:
                raise MachineError(f"not within {timeout:g} s: {what}\n{self.journal()[-4000:]}")
            time.sleep(0.3)


@contextlib.contextmanager
def booted_server(scratch: Path, *, hostname: str, binds: Sequence[Path] = ()) -> Iterator[Server]:
    """Boot a server that shares the network of this machine, and nothing else but some folders to read.

    Args:
        scratch: A folder for what the server changes; it is emptied.
        hostname: Its name, which need not resolve.
        binds: Folders of this machine that it sees at the same path, to read.

    Raises:
        MachineError: It does not boot; with the end of what it said.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    for name in ("upper", "work", "root"):
        (scratch / name).mkdir(parents=True)
    folder, log = scratch / "root", scratch / "boot.log"
    layers = f"lowerdir={root(SERVICE)},upperdir={scratch / 'upper'},workdir={scratch / 'work'}"
    run(["mount", "-t", "overlay", "overlay", "-o", layers, folder])
    (folder / "etc" / "hostname").write_text(f"{hostname}\n")
    (folder / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    (folder / "etc" / "machine-id").write_text("")
    options = ["--register=no", "--keep-unit", "--console=pipe", "--resolv-conf=bind-host", f"--hostname={hostname}"]
    shared = [f"--bind-ro={each}" for each in binds]
    command = ["systemd-nspawn", "--quiet", *options, *shared, "--directory", str(folder), "--boot"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    try:
        server = Server(folder, _leader(process, log), log)
        _wait_for_boot(server, process, log)
        yield server
    finally:
        _end(process)
        run(["umount", "--lazy", folder])
        shutil.rmtree(scratch, ignore_errors=True)


def _leader(process: subprocess.Popen[bytes], log: Path) -> int:
    """Return the process id of the server's systemd: the child of systemd-nspawn's child, or its child."""
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        for pid in descendants_of(process.pid):
            with contextlib.suppress(OSError):
                name = Path(f"/proc/{pid}/comm").read_text().strip()
                own = os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid")
                if name == "systemd" and own:
                    return pid
        time.sleep(0.1)
    raise MachineError(f"systemd-nspawn did not boot:\n{log.read_text(errors='replace')[-3000:]}")


def _wait_for_boot(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(MachineError):
            state = run(["sh", "-c", f"{shlex.join(server.command('systemctl', 'is-system-running'))} || true"])
            if state.strip().endswith(("running", "degraded")):
                return
        time.sleep(0.2)
    raise MachineError(f"systemd did not boot:\n{log.read_text(errors='replace')[-3000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
