"""What the demo needs of this machine, and how to get what is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flink_cluster.cache import cache_directory
from flink_cluster.distribution import DOWNLOAD_MB, PACKAGE, RELEASES
from flink_cluster.errors import HarnessError
from flink_cluster.java import tool

OLDEST_JAVA = 17
_JDK = "apt-get install -y openjdk-17-jdk-headless"


@dataclass(frozen=True)
class Missing:
    """Something that is not there: what, and the command that brings it (on Debian)."""

    what: str
    command: str


def missing_parts(flink_version: str) -> list[Missing]:
    """Return what is missing besides Python itself, all of it at once."""
    return [part for probe in (_java, _javac) if (part := probe())] + list(_network(flink_version))


def _java() -> Missing | None:
    path = _found("java")
    if path is None:
        return Missing(f"a JDK {OLDEST_JAVA}", _JDK)
    banner = subprocess.run([path, "-version"], check=False, capture_output=True, text=True).stderr
    version = java_version(banner)
    if version is None or version < OLDEST_JAVA:
        return Missing(f"Java {OLDEST_JAVA} or later; {path} is {version or 'of unknown version'}", _JDK)
    return None


def java_version(banner: str) -> int | None:
    """Read the major version from what ``java -version`` prints; None when it is not there."""
    found = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(found.group(1)) if found else None


def _javac() -> Missing | None:
    return None if _found("javac") else Missing("javac; a JRE has no compiler", _JDK)


def _found(name: str) -> str | None:
    try:
        return str(tool(name))
    except HarnessError:
        return None


def _network(flink_version: str) -> Iterator[Missing]:
    """Ask for the network only when Flink is not in the cache yet."""
    release = RELEASES[flink_version]
    if (cache_directory() / f"flink-{release}").is_dir():
        return
    if not _succeeds([sys.executable, "-m", "pip", "--version"]):
        yield Missing("pip, which downloads Flink", "apt-get install -y python3-pip python3-venv")
    elif not _pip_reaches_an_index():
        yield Missing(
            f"a package index that pip can reach, for Flink's jars "
            f"({PACKAGE} {release}, {DOWNLOAD_MB[flink_version]} MB)",
            "apt-get install -y ca-certificates  # then check the network, the proxy and PIP_INDEX_URL",
        )
    if (needed := lacking_room()) is not None:
        yield needed


def _pip_reaches_an_index() -> bool:
    """Ask the smallest possible question; which index pip asks is the user's configuration."""
    options = ["--retries", "0", "--timeout", "10", "--quiet", "--dry-run", "--no-deps", "--ignore-installed"]
    return _succeeds([sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options, "iniconfig"])


def _free_bytes(path: str) -> int:
    return shutil.disk_usage(path).free


def lacking_room(free_bytes: Callable[[str], int] = _free_bytes) -> Missing | None:
    """Tell whether there is too little room for the jars where the cache is, or will be."""
    place = next(path for path in (cache_directory(), *cache_directory().parents) if path.exists())
    if free_bytes(str(place)) >= 1 << 30:
        return None
    return Missing(f"1 GB of room in {place}", "FLINK_AUTOSCALER_CACHE=/another/place make demo")


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
