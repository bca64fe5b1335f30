"""Where the classes are that JobManagers and TaskManagers load, as the JVM itself keeps them.

A JVM that maps such an archive (application class-data sharing) takes two thirds of the processor time until it is
ready. It ignores one of another JDK or of other jars.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from testkit.clusters.flink.cache import cache_directory
from testkit.clusters.flink.distribution import RELEASES
from testkit.clusters.flink.java import tool

ROLES = ("jobmanager", "taskmanager")


def folder(version: str) -> Path:
    """Return the folder in the cache for the archives of a Flink version and this machine's JDK."""
    java = tool("java").resolve()
    jdk = hashlib.sha256(f"{java} {java.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    return cache_directory() / f"classes-{RELEASES[version]}-{jdk}"


def archive(directory: Path, role: str) -> Path:
    """Return the archive of a role."""
    return directory / f"{role}.jsa"


def options(version: str, role: str) -> list[str]:
    """Return the options of a JVM that maps the archive of its role; none where nobody has made one."""
    path = archive(folder(version), role)
    return [f"-XX:SharedArchiveFile={path}"] if path.is_file() else []
