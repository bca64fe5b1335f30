"""Flink's jars, taken from the Python package that carries them.

``apache-flink-libraries`` is a wheel with ``pyflink/lib`` (2.x) or a source archive
with ``deps/lib`` (1.20). It is fetched from the index that pip is configured for, in a
way that goes on where an earlier try stopped; where that does not work, by pip itself.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from downloads.fetching import FetchError, Progress, fetch
from downloads.index import files_of
from downloads.pip_settings import PipSettings, read_settings

from flink_cluster.cache import cache_directory, cached, say
from flink_cluster.errors import HarnessError

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
    root = cached(cache_directory() / f"flink-{release}", lambda into: _download(version, into))
    return Distribution(version, release, root)


def fetched(version: str, settings: PipSettings, on_progress: Progress) -> Path:
    """Return the package with the jars of a known version, fetching what is missing of it.

    It lies in the cache until :func:`distribution` has unpacked it.

    Raises:
        FetchError: The index has no such file, or does not send it.
        OSError: The index does not answer, or there is no room.
        ValueError: The index answers with something else.
    """
    name = PACKAGE.replace("-", "_")
    starts = (
        f"{name}-{RELEASES[version]}-",
        f"{name}-{RELEASES[version]}.tar.gz",
        f"{PACKAGE}-{RELEASES[version]}.tar.gz",
    )
    files = [file for file in files_of(PACKAGE, settings) if file.name.startswith(starts)] if settings.has_index else []
    if not files:
        raise FetchError(f"no {PACKAGE} {RELEASES[version]} in the index")
    wheel_first = min(files, key=lambda file: not file.name.endswith(".whl"))
    return fetch(wheel_first, _downloads(), settings, on_progress)


def _downloads() -> Path:
    return cache_directory() / "downloads" / "flink"


def is_ready(version: str) -> bool:
    """Whether the jars of a known version are in the cache."""
    return (cache_directory() / f"flink-{RELEASES[version]}").is_dir()


def _download(version: str, into: Path) -> None:
    release = RELEASES[version]
    say(f"downloading Flink {release} ({DOWNLOAD_MB[version]} MB, once) to {into.parent}")
    started = time.monotonic()
    lib = into / "lib"
    lib.mkdir()
    failure = ""
    try:
        _unpack_fetched(version, lib)
    except (FetchError, OSError, ValueError):  # pip knows more ways than we do
        failure = _pip_download(f"{PACKAGE}=={release}", into / "download")
        _collect_jars(into / "download", lib)
    _check_jars(lib, release, failure)
    shutil.rmtree(into / "download", ignore_errors=True)
    say(f"Flink {release} is ready after {time.monotonic() - started:.0f} s")


def _unpack_fetched(version: str, lib: Path) -> None:
    here = [path for path in _downloads().glob(f"*{RELEASES[version]}*") if path.suffix in (".whl", ".gz")]
    said = _Told(f"Flink {RELEASES[version]}")
    archive = here[0] if here else fetched(version, read_settings(Path(sys.executable)), said)
    if archive.suffix == ".whl":
        _unpack_wheel(archive, lib)
    else:
        _unpack_archive(archive, lib)
    archive.unlink()


class _Told:
    """Tells the waiting person every five seconds how far a download is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._next = time.monotonic() + 5

    def __call__(self, here: int, whole: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 5
            say(f"{self._name}: {here // 10**6} of {whole // 10**6} MB")


def _unpack_wheel(wheel: Path, lib: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("pyflink/lib/") and name.endswith(".jar"):
                with archive.open(name) as packed, (lib / Path(name).name).open("wb") as jar:
                    shutil.copyfileobj(packed, jar)


def _unpack_archive(path: Path, lib: Path) -> None:
    with tarfile.open(path) as archive:
        for member in archive:
            packed = archive.extractfile(member) if "/deps/lib/" in member.name else None
            if packed is not None and member.name.endswith(".jar"):
                with (lib / Path(member.name).name).open("wb") as jar:
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
