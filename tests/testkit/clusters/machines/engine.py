"""Docker for tests: the engine of Debian in namespaces of its own, with its data in a folder.

To build, it shares the network of this machine, where packages come from; what it runs is in a network of its own, so
that neither bridges nor firewall rules reach this machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from testkit.clusters.machines.errors import MachineError
from testkit.clusters.machines.roots import ENGINE, root, run

_START_TIMEOUT: Final = 60.0
_CLONE_NEWNET: Final = 0x40000000
"""Of ``setns(2)``; ``os`` has it from Python 3.12 on."""

# The folders of the root are those of an overlay: what is made in them ends with the engine.
_SETUP: Final = """
set -e
mount --make-rprivate /
mount -t overlay overlay -o lowerdir="$ROOT",upperdir="$SCRATCH/upper",workdir="$SCRATCH/work" "$SCRATCH/root"
cd "$SCRATCH/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p var/lib/docker "./$SHARED" outside
mount --bind "$DATA" var/lib/docker
mount --bind "$SHARED" "./$SHARED"
for each in /etc/resolv.conf /etc/hosts; do touch ".$each"; mount --bind "$each" ".$each"; done
if [ -n "$ALONE" ]; then ip link set lo up; fi
# Not chroot: who enters a container later would find the root of the namespace, which has to be this one.
pivot_root . outside
cd /
umount --lazy /outside
exec dockerd --host unix:///run/docker.sock --data-root /var/lib/docker --exec-root /run/docker \
    --pidfile /run/dockerd.pid $OPTIONS
"""


class Engine:
    """A running engine; made by :func:`docker_engine`.

    Attributes:
        pid: Of the engine, in whose namespaces commands run.
        log: What the engine says.
        shared: A folder that the engine sees at the same path, to be mounted into containers.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path, shared: Path) -> None:
        self._process = process
        self.log = log
        self.shared = shared

    @property
    def pid(self) -> int:
        """Of the engine."""
        return self._process.pid

    def docker(self, *arguments: object, timeout: float = 120.0, environment: Mapping[str, str] | None = None) -> str:
        """Run the client; return what it printed.

        Raises:
            MachineError: It failed, or took longer than ``timeout`` seconds.
        """
        return run(self.command("docker", *arguments, environment=environment), timeout=timeout)

    def command(self, *words: object, environment: Mapping[str, str] | None = None) -> list[str]:
        """Return a command that runs in the namespaces of the engine, whose root is its own."""
        inside = ["nsenter", "--target", str(self.pid), "--mount", "--net"]
        given = [f"{name}={value}" for name, value in (environment or {}).items()]
        path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
        return [*inside, "env", "-i", path, "HOME=/root", "DOCKER_BUILDKIT=0", *given, *(str(word) for word in words)]

    def inspect(self, name: str) -> dict[str, Any]:
        """Return what the engine knows of a container or an image."""
        found: list[dict[str, Any]] = json.loads(self.docker("inspect", name))
        return found[0]

    def get(self, url: str, *, timeout: float = 10.0) -> str:
        """Return the body of an answer in the network of the engine; raises :class:`MachineError`."""
        return run(self.command("curl", "--silent", "--show-error", "--fail", "--max-time", timeout, url))

    def start(self, image: str, *options: object, command: Iterable[object] = ()) -> Container:
        """Start a container."""
        return Container(self, self.docker("run", "--detach", *options, image, *command).split()[-1])

    def ended(
        self, image: str, *options: object, command: Iterable[object] = (), timeout: float = 90.0
    ) -> tuple[int, str]:
        """Return exit code and output of a container that ends by itself."""
        words = self.command("docker", "run", "--rm", *options, image, *command)
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
        return done.returncode, done.stdout + done.stderr

    @contextlib.contextmanager
    def network(self) -> Iterator[None]:
        """Put this thread into the network of the engine, with the threads and programs that it starts.

        Sockets that are made there stay there. Containers with ``--network host`` reach what listens on the loopback.
        """
        with (
            Path("/proc/self/ns/net").open("rb") as before,
            Path(f"/proc/{self.pid}/ns/net").open("rb") as there,
        ):
            _enter_network(there.fileno())
            try:
                yield
            finally:
                _enter_network(before.fileno())

    def stop(self) -> None:
        """End the engine and what it runs."""
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def require_running(self) -> None:
        """Raise with the end of the log when the engine has ended."""
        if self._process.poll() is not None:
            raise MachineError(f"dockerd ended:\n{self.log.read_text(errors='replace')[-3000:]}")


@dataclass(frozen=True)
class Container:
    """A container that was started; a context manager that removes it, with what it said."""

    engine: Engine
    name: str

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(self.log()[-4000:])
        self.engine.docker("rm", "--force", "--volumes", self.name)

    def log(self) -> str:
        """Return what it has said so far."""
        return self.engine.docker("logs", self.name)

    def state(self) -> dict[str, Any]:
        """Return its state: ``Running``, ``ExitCode``, ``OOMKilled``, ``Health``."""
        found: dict[str, Any] = self.engine.inspect(self.name)["State"]
        return found

    def restarts(self) -> int:
        """Return how often the engine has started it again."""
        return int(self.engine.inspect(self.name)["RestartCount"])

    def execute(self, *words: object, timeout: float = 300.0) -> str:
        """Run a program in it; return what that printed, or raise :class:`MachineError`."""
        return self.engine.docker("exec", self.name, *words, timeout=timeout)

    def is_healthy(self) -> bool:
        """Whether its health check says so."""
        return str(self.state()["Health"]["Status"]) == "healthy"


def _enter_network(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET) != 0:
        raise MachineError(f"the network of the engine cannot be entered: {os.strerror(ctypes.get_errno())}")


@contextlib.contextmanager
def docker_engine(data: Path, scratch: Path, shared: Path, *, alone: bool) -> Iterator[Engine]:
    """Run an engine.

    Args:
        data: Where images and volumes are and stay.
        scratch: A folder for what ends with the engine; it is emptied.
        shared: A folder of this machine that the engine sees at the same path: what images are built from, and what is
            mounted into containers.
        alone: Whether it is in a network of its own; else containers have that of this machine or none.

    Raises:
        MachineError: It does not start; with the end of its log.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    for name in ("upper", "work", "root"):
        (scratch / name).mkdir(parents=True)
    data.mkdir(parents=True, exist_ok=True)
    log = scratch / "dockerd.log"
    options = "" if alone else "--iptables=false --ip6tables=false --bridge=none --ip-forward=false"
    environment = {
        **{name: os.environ[name] for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY") if name in os.environ},
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "ROOT": str(root(ENGINE)),
        "SCRATCH": str(scratch),
        "DATA": str(data),
        "SHARED": str(shared),
        "OPTIONS": options,
        "ALONE": "1" if alone else "",
    }
    command = ["unshare", "--mount", *(["--net"] if alone else []), "sh", "-c", _SETUP]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    engine = Engine(process, log, shared)
    try:
        _wait_until_it_answers(engine)
        if left := engine.docker("ps", "--all", "--quiet").split():  # by a test that was killed
            engine.docker("rm", "--force", "--volumes", *left)
        yield engine
    finally:
        engine.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def _wait_until_it_answers(engine: Engine) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while True:
        engine.require_running()
        try:
            engine.docker("version", timeout=10)
        except MachineError as error:
            if time.monotonic() > deadline:
                raise MachineError(f"{error}\n{engine.log.read_text(errors='replace')[-3000:]}") from error
            time.sleep(0.2)
        else:
            return


def imported(engine: Engine, name: str, folder: Path, *changes: str) -> None:
    """Make an image of the folder of a Debian, unless it is there; documentation and translations are left out."""
    with contextlib.suppress(MachineError):
        engine.docker("image", "inspect", name)
        return
    kept_out = [f"--exclude=./usr/share/{each}" for each in ("doc/*/*", "man/*", "locale/*", "info/*")]
    tar = shlex.join(["tar", "-C", str(folder), *kept_out, "-c", "."])
    words = [word for change in changes for word in ("--change", change)]
    load = shlex.join(engine.command("docker", "import", *words, "-", name))
    run(["sh", "-c", f"{tar} | {load}"], timeout=300)
