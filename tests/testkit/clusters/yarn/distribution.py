"""Hadoop's jars, each downloaded from Maven Central and checked against a known digest.

The separate artifacts and not the shaded mini cluster, whose ResourceManager answers in
another JSON than any installed one.
"""

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import httpx

from testkit.clusters.flink.cache import cache_directory, make_once, say
from testkit.clusters.flink.errors import HarnessError

RELEASE = "3.3.6"
REPOSITORY = "https://repo1.maven.org/maven2"
DOWNLOAD_MB = 83
_DIGESTS = Path(__file__).with_name(f"hadoop-{RELEASE}.sha256")
_FOLDERS = {"logging": ("reload4j-", "slf4j-reload4j-"), "hdfs": ("hadoop-hdfs-3", "netty-")}
_CONNECTIONS = 8


class MavenUnreachableError(HarnessError):
    """Maven Central could not be reached, and the jars are not in the cache."""


@dataclass(frozen=True)
class Artifact:
    """One jar: where it is in the repository, and what it has to be."""

    sha256: str
    path: str

    @property
    def file_name(self) -> str:
        """Name of the jar without folders."""
        return PurePosixPath(self.path).name


@dataclass(frozen=True)
class HadoopDistribution:
    """Hadoop's jars in the cache.

    Attributes:
        lib: Folder with all jars but those that bind the log, which Flink brings along.
        logging: Folder with the jars that bind the log of Hadoop's own processes.
        hdfs: Folder with the jars that NameNode and DataNode need besides; nobody else sees them.
    """

    lib: Path
    logging: Path
    hdfs: Path


def repository() -> str:
    """Return ``$FLINK_AUTOSCALER_MAVEN`` (a mirror) or Maven Central."""
    return os.environ.get("FLINK_AUTOSCALER_MAVEN", REPOSITORY).rstrip("/")


def artifacts() -> list[Artifact]:
    """Return the runtime dependencies of Hadoop's daemons and the YARN client, resolved once."""
    lines = _DIGESTS.read_text().splitlines()
    return [Artifact(*line.split(maxsplit=1)) for line in lines]


def hadoop() -> HadoopDistribution:
    """Return the jars, downloading them on first use.

    Raises:
        MavenUnreachableError: They are not in the cache, and the repository cannot be reached.
        HarnessError: A jar is not there, or is not the one it should be.
    """
    digest = hashlib.sha256(_DIGESTS.read_bytes()).hexdigest()[:16]
    root = make_once(cache_directory() / f"hadoop-{RELEASE}-{digest}", lambda into: download(artifacts(), into))
    return HadoopDistribution(lib=root / "lib", logging=root / "logging", hdfs=root / "hdfs")


def download(wanted: Iterable[Artifact], into: Path) -> None:
    """Download jars into ``lib``, ``logging`` and ``hdfs`` below a folder."""
    say(f"downloading Hadoop {RELEASE} ({DOWNLOAD_MB} MB, once) to {into.parent}")
    for folder in ("lib", *_FOLDERS):
        (into / folder).mkdir()
    with httpx.Client(timeout=60.0, follow_redirects=True) as client, ThreadPoolExecutor(_CONNECTIONS) as threads:
        for _ in threads.map(lambda artifact: _fetch(client, artifact, into), wanted):
            pass


def _fetch(client: httpx.Client, artifact: Artifact, into: Path) -> None:
    folder = next((name for name, starts in _FOLDERS.items() if artifact.file_name.startswith(starts)), "lib")
    url = f"{repository()}/{artifact.path}"
    try:
        response = client.get(url)
    except httpx.TransportError as error:
        raise MavenUnreachableError(f"{url} cannot be reached, and Hadoop is not in the cache: {error}") from error
    if not response.is_success:
        raise HarnessError(f"{url}: {response.status_code}")
    if hashlib.sha256(response.content).hexdigest() != artifact.sha256:
        raise HarnessError(f"{url} is not the file it was when the list of digests was made")
    (into / folder / artifact.file_name).write_bytes(response.content)


def flink_lib(flink: Path) -> Path:
    """Return a folder with the few jars of a Flink distribution that YARN copies for each application.

    Args:
        flink: Folder with all jars of the distribution.
    """

    def copy(into: Path) -> None:
        for pattern in ("flink-dist-*.jar", "log4j-*.jar"):
            for jar in flink.glob(pattern):
                os.link(jar, into / jar.name)

    return make_once(flink.parent.with_name(f"{flink.parent.name}-on-yarn"), copy)
