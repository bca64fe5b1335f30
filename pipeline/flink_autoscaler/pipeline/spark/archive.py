"""Packs what executors import into archives, from what this process itself runs with.

Executors import archives through zipimport: it sees a namespace package only where the archive has directory entries
(before Python 3.14), and no compiled modules. The libraries that are packed do without theirs, at some cost in speed.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePath
from typing import Final

import flink_autoscaler

DISTRIBUTION: Final = "flink-autoscaler"

LIBRARIES: Final = {
    "httpx": "httpx",
    "stamina": "stamina",
    "structlog": "structlog",
}
"""What a pass imports beside the standard library and pyarrow: import names by distribution."""

_COMPILED: Final = frozenset({".so", ".pyd", ".pyc", ".pyx", ".pxd", ".c", ".h"})
_NAME: Final = re.compile(r"[\w.-]+")
_DESCRIPTION: Final = ("METADATA", "entry_points.txt")


def pack_ours(archive: Path) -> Path:
    """Pack our own packages, and the list of our plug-ins. Returns the archive."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for place, path in sorted(_our_files().items()):
            target.write(path, place)
        for name, text in _description():
            target.writestr(name, text)
    return archive


def pack_libraries(archive: Path) -> Path:
    """Pack the libraries of ``LIBRARIES`` and what they need, without compiled modules. Returns the archive.

    Installations may be trimmed, as that of the container image is: what is listed and not there is left out.
    """
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for installed in _with_requirements(list(LIBRARIES)):
            for path in installed.files or ():
                if ".." not in path.parts and _is_portable(path) and os.path.isfile(path.locate()):
                    target.write(str(path.locate()), path)
    return archive


def _our_files() -> dict[PurePath, Path]:
    """Return files and folders of our packages by their places in an archive; of two roots the first counts."""
    roots = [Path(root) for root in reversed(list(flink_autoscaler.__path__))]
    paths = {PurePath(root.name) / path.relative_to(root): path for root in roots for path in [root, *root.rglob("*")]}
    return {place: path for place, path in paths.items() if _is_portable(path)}


def _is_portable(path: PurePath) -> bool:
    return "__pycache__" not in path.parts and path.suffix not in _COMPILED


def _description() -> Iterator[tuple[str, str]]:
    """Give what names our plug-ins, as the distribution has it; a bare checkout has nothing."""
    try:
        ours = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return
    folder = f"{DISTRIBUTION.replace('-', '_')}-{ours.version}.dist-info"
    for name in _DESCRIPTION:
        text = ours.read_text(name)
        if text is not None:
            yield f"{folder}/{name}", text


def _with_requirements(names: list[str]) -> list[Distribution]:
    """Return distributions and all that they need here, each once; extras are left out."""
    found: dict[str, Distribution] = {}
    while names:
        name = names.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # needed by other versions of Python only
        names += [_name(line) for line in found[name].requires or () if "extra ==" not in line]
    return list(found.values())


def _name(requirement: str) -> str:
    match = _NAME.match(requirement)
    return match[0] if match else requirement
