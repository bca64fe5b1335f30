"""Flink's jars, taken from the Python package that carries them.

``apache-flink-libraries`` is a wheel with ``pyflink/lib`` (2.x) or a source archive
with ``deps/lib`` (1.20). pip downloads it from the index that it is configured for.
"""

import os
import shutil
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from testkit.clusters.flink.cache import cache_directory, make_once, say
from testkit.clusters.flink.errors import HarnessError

PACKAGE = "apache-flink-libraries"
RELEASES = {"1.20": "1.20.5", "2.3": "2.3.0"}
DOWNLOAD_MB = {"1.20": 232, "2.3": 329}


@dataclass(frozen=True)
class Distribution:
    """The jars of one Flink release in the cache."""

    version: str
    release: str
    root: Path

    @property
    def lib(self) -> Path:
        """Directory with the jars of the class path."""
        return self.root / "lib"

    @property
    def class_path(self) -> str:
        """What ``java -cp`` and ``javac -cp`` take."""
        return f"{self.lib}/*"


def distribution(version: str) -> Distribution:
    """Return the distribution of ``"1.20"`` or ``"2.3"``, downloading it on first use.

    Raises:
        HarnessError: The version is not known, or pip or the network is missing.
    """
    if version not in RELEASES:
        raise HarnessError(f"Flink {version!r} is not known; known: {', '.join(RELEASES)}")
    release = RELEASES[version]
    root = make_once(cache_directory() / f"flink-{release}", lambda into: _download(version, into))
    return Distribution(version, release, root)


def is_ready(version: str) -> bool:
    """Whether the jars of a known version are in the cache."""
    return (cache_directory() / f"flink-{RELEASES[version]}").is_dir()


def _download(version: str, into: Path) -> None:
    release = RELEASES[version]
    say(f"downloading Flink {release} ({DOWNLOAD_MB[version]} MB, once) to {into.parent}")
    started = time.monotonic()
    download, lib = into / "download", into / "lib"
    lib.mkdir()
    failure = _pip_download(f"{PACKAGE}=={release}", download)
    _collect_jars(download, lib)
    _check_jars(lib, release, failure)
    shutil.rmtree(download)
    say(f"Flink {release} is ready after {time.monotonic() - started:.0f} s")


def _unpack_wheel(wheel: Path, lib: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("pyflink/lib/") and name.endswith(".jar"):
                with archive.open(name) as packed, (lib / Path(name).name).open("wb") as jar:
                    shutil.copyfileobj(packed, jar)


def _pip_download(requirement: str, directory: Path) -> str:
    """Run pip; return its error text, empty on success.

    For a source archive pip also runs the build to learn the metadata, which may
    fail where there is no build tool that fits. ``--no-clean`` leaves the unpacked
    archive behind in that case, and the jars are all that is wanted.
    """
    temporary = directory / "tmp"
    temporary.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], check=False, capture_output=True).returncode:
        raise HarnessError(f"{sys.executable} has no pip, which downloads Flink: {sys.executable} -m ensurepip")
    options = ["--no-deps", "--no-clean", "--no-cache-dir", "--dest", str(directory)]
    result = subprocess.run(
        [*pip, "download", *options, requirement],
        check=False,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=2,  # the progress bar, for the waiting person
        stderr=subprocess.PIPE,
        text=True,
    )
    return result.stderr if result.returncode else ""


def _collect_jars(download: Path, lib: Path) -> None:
    for wheel in download.glob("*.whl"):
        _unpack_wheel(wheel, lib)
    for unpacked in download.glob("tmp/*/*/deps/lib/*.jar"):
        unpacked.rename(lib / unpacked.name)


def _check_jars(lib: Path, release: str, failure: str) -> None:
    found = sorted(lib.glob("*.jar"))
    complete = any(jar.name == f"flink-dist-{release}.jar" for jar in found)
    if complete and all(zipfile.is_zipfile(jar) for jar in found):
        return
    last_lines = "\n".join(failure.strip().splitlines()[-8:])
    raise HarnessError(
        f"Flink {release} could not be downloaded: pip needs to reach a package index with {PACKAGE} "
        f"(network, proxy, PIP_INDEX_URL), and {lib.parent} room for 1 GB.\n{last_lines}"
    )
