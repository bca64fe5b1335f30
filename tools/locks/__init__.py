"""The lock files of deployments: which there are, how they are written, and what they pin.

``python -m locks`` (``make lock``) writes them with uv and keeps what is pinned; ``--upgrade`` does not.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT: Final = Path(__file__).parents[2]
FOLDER: Final = PROJECT / "requirements"

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "inline": ("postgresql", "mysql", "notifications"),
    "spark": ("postgresql", "mysql", "notifications", "spark"),
    "connect": ("postgresql", "mysql", "notifications", "spark", "connect"),
    "kerberos": ("kerberos",),
}
"""Extras of the project by the lock file that pins them and what they need; ``kerberos`` comes on top of another."""

BUILD: Final = "build"
"""What builds the project itself."""

DEVELOPMENT: Final = "dev"
"""What set-ups of a clone take: the versions that tests, linters and types were seen to pass with; without hashes."""

OLDEST_PYTHON: Final = "3.11"

_PIN: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(\[[a-z,]+\])?==(\S+)", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")


@dataclass(frozen=True)
class Pin:
    """One package of a lock file.

    Attributes:
        name: As indexes write it: lower case, with hyphens.
        version: The only one that may be installed.
        hashes: Archives of it that may be installed.
    """

    name: str
    version: str
    hashes: int


def lock_file(name: str) -> Path:
    """Return the path of a lock file."""
    return FOLDER / f"{name}.txt"


def pins(text: str) -> tuple[Pin, ...]:
    """Return what a lock file pins; a package may be there once per version of Python."""
    found = list(_PIN.finditer(text))
    ends = [each.start() for each in found[1:]] + [len(text)]
    return tuple(
        Pin(canonicalize_name(each[1]), each[3], len(_HASH.findall(text, each.end(), end)))
        for each, end in zip(found, ends, strict=True)
    )


def requirements(pyproject: Path, extras: tuple[str, ...]) -> Iterator[Requirement]:
    """Yield what the project needs with some extras; those that name other extras of the project are followed."""
    project = tomllib.loads(pyproject.read_text())["project"]
    waiting, seen = list(extras), set(extras)
    yield from map(Requirement, project["dependencies"])
    while waiting:
        for requirement in map(Requirement, project["optional-dependencies"][waiting.pop()]):
            if canonicalize_name(requirement.name) != project["name"]:
                yield requirement
                continue
            waiting += requirement.extras - seen
            seen |= requirement.extras
