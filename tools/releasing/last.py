"""The release before this version: which one it is, and its wheel, built from the history of the repository."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from releasing.building import PROJECT, ReleaseError, run, version
from testkit.clusters.flink.cache import cache_directory, make_once

_TAG: Final = re.compile(r"v(?P<version>\d+\.\d+\.\d+)")


@dataclass(frozen=True)
class Release:
    """A version, and the commit that it was built from."""

    version: str
    commit: str


PINNED: Final = Release("0.1.0", "20f2654a2e2f79ded97bce1074cec8eb2ac69d5e")
"""What there was before the first tag."""


class NoHistoryError(ReleaseError):
    """The commit of the release is not here, as in a shallow clone or a source archive."""


def last_release() -> Release:
    """Return the newest tagged release behind this commit that is not of today's version, else the pinned one."""
    try:
        tags = _git("tag", "--merged", "HEAD", "--list", "v*", "--sort=-version:refname").decode().split()
    except NoHistoryError:
        return PINNED
    versions = [found["version"] for tag in tags if (found := _TAG.fullmatch(tag))]
    for each in versions:
        if each != version():
            return Release(each, _git("rev-list", "-n", "1", f"v{each}").decode().strip())
    return PINNED


def wheel_of(release: Release) -> Path:
    """Return the wheel of a release; it is built once and kept in the cache.

    Raises:
        NoHistoryError: Its commit is not in this clone.
        ReleaseError: It cannot be built.
    """
    target = cache_directory() / "releases" / f"{release.version}-{release.commit[:12]}"
    [wheel] = make_once(target, lambda into: _build(release, into)).glob("*.whl")
    return wheel


def _build(release: Release, into: Path) -> None:
    """Build the wheel from the files of the commit; they are removed afterwards."""
    sources = into / "sources"
    with tarfile.open(fileobj=io.BytesIO(_git("archive", release.commit))) as archive:
        archive.extractall(sources, filter="data")
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", into, folder=sources)
    shutil.rmtree(sources)
    built = [path.name for path in into.glob("*.whl")]
    if built != [f"flink_autoscaler-{release.version}-py3-none-any.whl"]:
        raise ReleaseError(f"the commit {release.commit} gives {built} and not version {release.version}")


def _git(*words: str) -> bytes:
    # Whoever the files belong to: nothing is run from the repository.
    command = ["git", "-c", "safe.directory=*", *words]
    try:
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise NoHistoryError("git is not installed") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise NoHistoryError(f"git {' '.join(words)}: {said}; in a shallow clone, git fetch --unshallow --tags")
    return done.stdout
