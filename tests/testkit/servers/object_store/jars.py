"""What Spark lacks to reach S3: Hadoop's module for it, in the version of the Hadoop that PySpark brings along."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from testkit.clusters.flink.cache import cache_directory, make_once, say
from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.spark.launch import spark_home

_POM: Final = Path(__file__).parent / "pom.xml"
_API: Final = "hadoop-client-api-"
_IN_SPARK: Final = (
    "commons-",
    "httpclient-",
    "httpcore-",
    "netty-b",
    "netty-c",
    "netty-h",
    "netty-r",
    "netty-t",
    "slf4j-",
)
"""What Spark has itself, in versions of its own."""


class NoMavenError(HarnessError):
    """The jars are not in the cache, and there is no Maven to fetch them."""


def hadoop_version() -> str:
    """Return the version of PySpark's Hadoop."""
    [api] = (spark_home() / "jars").glob(f"{_API}*.jar")
    return api.stem.removeprefix(_API)


def s3_jars() -> list[Path]:
    """Return the jars, fetched on first use: 12 MB.

    Raises:
        NoMavenError: There is no way to have them here.
    """
    version = hadoop_version()
    folder = make_once(cache_directory() / f"hadoop-aws-{version}", lambda into: _fetch(version, into))
    return sorted(folder.glob("*.jar"))


def _fetch(version: str, into: Path) -> None:
    if shutil.which("mvn") is None:
        raise NoMavenError("needs mvn (Debian: maven) to fetch Hadoop's module for S3, once")
    say(f"fetching Hadoop's module for S3 (12 MB, once) to {into.parent}")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={into}", f"-Dhadoop.version={version}"]
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", str(_POM), *goal], capture_output=True, text=True, timeout=500, check=False
    )
    if done.returncode != 0:
        raise HarnessError(f"Maven could not fetch Hadoop's module for S3: {done.stdout[-2000:]}")
    for jar in into.glob("*.jar"):
        if jar.name.startswith(_IN_SPARK):
            jar.unlink()
