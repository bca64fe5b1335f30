"""Debian in a folder, made once with debootstrap and kept in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testkit.clusters.flink.cache import cache_directory, make_once, say
from testkit.clusters.machines.errors import MachineError

_TIMEOUT: Final = 540.0
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True)
class Root:
    """What a folder with a Debian has.

    Attributes:
        name: Of the folder; another list of packages is another name.
        suite: Release of Debian.
        packages: Beside the minimal system.
    """

    name: str
    suite: str
    packages: tuple[str, ...]


PYTHON: Final = Root(
    "python-1", "bookworm", ("ca-certificates", "python3", "python3-venv", "python3-pip", "netbase", "tzdata")
)
"""Stands in for python:3.12-slim-bookworm: the same Debian, with Debian's own Python."""

JAVA: Final = Root("java-1", "bookworm", ("ca-certificates", "openjdk-17-jre-headless", "procps", "util-linux"))
"""What an image of Flink is made of."""

SERVICE: Final = Root(
    "service-1",
    "bookworm",
    ("systemd", "systemd-sysv", "dbus", "ca-certificates", "python3-venv", "openjdk-17-jre-headless", "procps"),
)
"""A server as the guide wants it, with the packages that it names."""

ENGINE: Final = Root(
    "engine-1",
    "trixie",
    ("docker.io", "docker-cli", "docker-compose", "iptables", "iproute2", "ca-certificates", "procps", "curl"),
)
"""Docker: the engine, the client and compose."""


def missing_tools(*more: str) -> str | None:
    """Return why machines cannot be made here, in a sentence; None where they can."""
    if os.geteuid() != 0:
        return "machines for tests are made by root"
    lacking = [name for name in ("debootstrap", "unshare", "nsenter", *more) if shutil.which(name) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else None


def root(wanted: Root) -> Path:
    """Return the folder of a Debian, which is not to be written to.

    Raises:
        MachineError: debootstrap fails; with the end of what it said.
    """
    return make_once(cache_directory() / "machines" / wanted.name, lambda into: _make(wanted, into))


def _make(wanted: Root, into: Path) -> None:
    say(f"making Debian {wanted.suite} with {', '.join(wanted.packages)} in {into.parent}")
    included = f"--include={','.join(wanted.packages)}"
    run(["debootstrap", "--variant=minbase", included, wanted.suite, into], timeout=_TIMEOUT)
    shutil.rmtree(into / "var" / "cache" / "apt" / "archives", ignore_errors=True)
    for lists in (into / "var" / "lib" / "apt" / "lists").glob("*"):
        lists.unlink() if lists.is_file() else shutil.rmtree(lists)
    if _CERTIFICATES.exists():  # the index of packages may be behind a certificate of the company
        shutil.copy(_CERTIFICATES, into / _CERTIFICATES.relative_to("/"))
    into.chmod(0o755)


def run(command: Iterable[object], *, timeout: float = 300.0, environment: dict[str, str] | None = None) -> str:
    """Run a program to its end; return what it printed.

    Raises:
        MachineError: It failed or took too long.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{' '.join(words)}: {error}") from error
    if done.returncode:
        last = "\n".join(done.stdout.strip().splitlines()[-30:])
        raise MachineError(f"{' '.join(words)} ended with {done.returncode}:\n{last}")
    return done.stdout
