"""What is made while the rest goes on: PySpark's wheel and Flink's jars, both kept in the cache for other clones."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from downloads.fetching import FetchError, fetch
from downloads.index import IndexFile, Version, files_of, newest_archive
from downloads.pip_settings import PipSettings

from flink_cluster.cache import cache_directory, cached
from flink_cluster.distribution import DOWNLOAD_MB, RELEASES, fetched, is_ready
from installing.environment import Environment
from installing.failures import AGAIN, SetupError, explain
from installing.work import Work

_ROOM = 3 << 30
"""Bytes that the source archive of PySpark takes while it becomes a wheel."""
_RANGE = re.compile(r"pyspark>=([\d.]+),<([\d.]+)$")


class Ahead:
    """Fetches what is large before the installer asks for it. Where that does not work, the installer does it alone."""

    def __init__(self, work: Work, environment: Environment, settings: PipSettings) -> None:
        self._work = work
        self._environment = environment
        self._settings = settings
        self.wheels: Path | None = None
        """Directory with the wheel of PySpark; None when there is none."""

    def spark(self, project: Path, wait_for_uv: Callable[[], bool]) -> None:
        """Make the wheel of PySpark, which the index has as a source archive alone."""
        try:
            archive = self._spark_archive(project)
            if archive is not None:
                self.wheels = self._spark_wheel(archive, wait_for_uv)
        except (FetchError, OSError, ValueError) as error:
            _require_room(error)
            self._work.say(f"PySpark is left to the installer ({error})")

    def flink(self, versions: list[str]) -> None:
        """Put Flink's jars and the job's jar into the cache."""
        for version in versions:
            try:
                if not is_ready(version):
                    self._fetch_flink(version)
                with self._work.step(f"making Flink {RELEASES[version]} and its job ready"):
                    self._prepare(version)
            except (FetchError, OSError, ValueError) as error:
                _require_room(error)
                self._work.say(f"Flink {RELEASES[version]} is left for later ({error})")

    def _fetch_flink(self, version: str) -> None:
        with self._work.step(f"fetching Flink {RELEASES[version]} ({DOWNLOAD_MB[version]} MB)") as told:
            fetched(version, self._settings, self._progress(told))

    def _prepare(self, version: str) -> None:
        support = Path(__file__).parents[1]
        self._work.run([sys.executable, "-m", "flink_cluster.prepare", version], {"PYTHONPATH": str(support)})

    def _spark_archive(self, project: Path) -> IndexFile | None:
        if not self._settings.has_index:
            return None
        at_least, below = spark_range(project / "pyproject.toml")
        return newest_archive(files_of("pyspark", self._settings), "pyspark", at_least, below)

    def _spark_wheel(self, archive: IndexFile, wait_for_uv: Callable[[], bool]) -> Path:
        target = cache_directory() / "wheels" / archive.name.removesuffix(".tar.gz")
        return cached(target, lambda into: self._build_spark(archive, into, wait_for_uv))

    def _build_spark(self, archive: IndexFile, into: Path, wait_for_uv: Callable[[], bool]) -> None:
        _require_free(into)
        downloads = cache_directory() / "downloads"
        with self._work.step("fetching PySpark (about 460 MB)") as told:
            path = fetch(archive, downloads, self._settings, self._progress(told))
        with_uv = wait_for_uv()
        with self._work.step("building the wheel of PySpark, once for all clones"):
            self._environment.build_wheel(path, into, self._settings, with_uv=with_uv)
        shutil.rmtree(into / "tmp", ignore_errors=True)
        path.unlink()

    def _progress(self, told: Callable[[str], None]) -> Callable[[int, int], None]:
        def progress(here: int, whole: int) -> None:
            self._work.require_going_on()
            told(f"{here / 1e6:.0f} of {whole / 1e6:.0f} MB" if whole else f"{here / 1e6:.0f} MB")

        return progress


def spark_range(pyproject: Path) -> tuple[Version, Version]:
    """Return the first release of PySpark that fits the project, and the first one behind that does not.

    Raises:
        ValueError: The range is written in another way.
    """
    for requirement in tomllib.loads(pyproject.read_text())["project"]["optional-dependencies"]["spark"]:
        if found := _RANGE.match(requirement):
            at_least, below = (tuple(int(part) for part in text.split(".")) for text in found.groups())
            return at_least, below
    raise ValueError(f"no range of pyspark in {pyproject}")


def _require_room(error: BaseException) -> None:
    reason = explain(str(error))
    if isinstance(error, OSError) and reason is not None and "disk" in reason:
        raise SetupError(reason)


def _require_free(place: Path) -> None:
    free = shutil.disk_usage(place).free
    if free < _ROOM:
        raise SetupError(
            f"{cache_directory()} has room for {free / 1e9:.1f} GB, and PySpark takes 3 GB while it becomes a wheel: "
            f"free some, or name another place with FLINK_AUTOSCALER_CACHE, {AGAIN}"
        )
