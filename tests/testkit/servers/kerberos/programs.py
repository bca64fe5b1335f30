"""Programs of the machine that the tests need."""

import os
import pwd
import shutil
import socket
from typing import Any


class MissingProgramError(Exception):
    """A program is not installed."""


def program(name: str) -> str:
    """Return the path of a program.

    Raises:
        MissingProgramError: It is not installed.
    """
    path = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin")))
    if path is None:
        raise MissingProgramError(f"{name} is not installed")
    return path


def free_port() -> int:
    """Return a loopback port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def unprivileged(name: str) -> dict[str, Any]:
    """Return the arguments for a process that runs as another user than root: none where this is not root."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(name)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
