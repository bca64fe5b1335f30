"""What a daemon takes at an instant."""

from __future__ import annotations

import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from testkit.processes import descendants_of
from testkit.scenarios.soak.growth import Tolerance

_PATIENCE = 180.0
_PASSES = re.compile(r'^flink_autoscaler_passes_total\{cluster="([^"]*)".*result="succeeded".*\} (\S+)$', re.MULTILINE)
_TIDIED = re.compile(r"^flink_autoscaler_history_last_compaction_timestamp_seconds(?:\{.*\})? (\S+)$", re.MULTILINE)
_OWN = re.compile(r"^(?:Anonymous|Swap):\s+(\d+)", re.MULTILINE)

_KEPT_SECONDS = 86_400.0
_OLD_NOTICES = (
    "SELECT count(*) FROM fa_notification WHERE greatest(added_ms, settled_ms, claimed_until_ms, repeat_until_ms) < %s"
)

TOLERANCES: Mapping[str, Tolerance] = {
    "memory": Tolerance(0.02, 1.0),
    "descriptors": Tolerance(0.0, 1.0),
    "threads": Tolerance(0.0, 1.0),
    "series": Tolerance(0.02, 1.0),
    # A rescale makes some ten, which are kept for two rounds; of the hundred rescales of a run, one round has none and
    # the next one eighteen. Kept for ever, they would be a thousand more.
    "rows of fa_decision": Tolerance(0.05, 100.0),
    "rows": Tolerance(0.05, 20.0),
    "kB": Tolerance(0.05, 256.0),  # rows that were replaced take room until the database has time to clear them
    "files": Tolerance(0.05, 5.0),
}
"""By the word that the name of a figure begins with."""


@dataclass(frozen=True)
class Sample:
    """What there was at an instant.

    Attributes:
        figures: By name; what could not be asked at that moment, such as a database that is away, is left out.
        passes: That succeeded since the start, by cluster.
    """

    figures: Mapping[str, float]
    passes: Mapping[str, float]


class Sampler:
    """Measures a daemon.

    Args:
        pid: Of the daemon.
        url: Of its pages.
        database: Where its state is, as psycopg takes it.
        folders: By name, folders that it writes.
    """

    def __init__(self, pid: int, url: str, database: str, folders: Mapping[str, Path]) -> None:
        self._pid = pid
        self._url = url
        self._database = database
        self._folders = folders
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def sample(self) -> Sample:
        """Measure everything that can be."""
        page = self.page("/metrics")
        figures = {
            **of_processes(family(self._pid)),
            "series of /metrics": float(sum(line[:1] not in {"", "#"} for line in page.splitlines())),
            **self._tables(),
            **self._files(),
        }
        return Sample(figures, passes_of(page))

    def page(self, path: str) -> str:
        """Return a page of the daemon, which cuts an answer off that takes half a minute, as on a busy machine.

        Raises:
            OSError: It cannot be had for minutes, or says that something is wrong.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                with self._opener.open(self._url + path, timeout=60) as answer:
                    return str(answer.read().decode())
            except urllib.error.HTTPError:
                raise
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() > deadline:
                    raise OSError(f"{path} cannot be had: {error}") from error
                time.sleep(1.0)

    def readiness(self) -> str:
        """Return why the daemon cannot do its work; empty where it can."""
        try:
            self.page("/readyz")
        except urllib.error.HTTPError as error:
            return error.read().decode()
        return ""

    def old_notices(self, now: float) -> int:
        """Return how many notices the outbox keeps that are an hour older than it keeps any; 0 where it is away."""
        before_ms = round(1000 * (now - _KEPT_SECONDS - 3600.0))
        try:
            with psycopg.connect(self._database, connect_timeout=5, autocommit=True) as connection:
                row = connection.execute(_OLD_NOTICES, (before_ms,)).fetchone()
        except psycopg.Error:
            return 0
        return 0 if row is None else int(row[0])

    def _tables(self) -> dict[str, float]:
        try:
            with psycopg.connect(self._database, connect_timeout=5, autocommit=True) as connection:
                return dict(_of_tables(connection))
        except psycopg.Error:
            return {}

    def _files(self) -> dict[str, float]:
        found = {name: _sizes(folder) for name, folder in self._folders.items()}
        return {
            **{f"files of {name}": float(len(sizes)) for name, sizes in found.items()},
            **{f"kB of {name}": sum(sizes) / 1024 for name, sizes in found.items()},
        }


def passes_of(page: str) -> dict[str, float]:
    """Return how many passes of each cluster have succeeded, whatever evaluated them."""
    found: dict[str, float] = {}
    for cluster, count in _PASSES.findall(page):
        found[cluster] = found.get(cluster, 0.0) + float(count)
    return found


def tidied_at(page: str) -> float:
    """Return when the history was last compacted and what is too old removed, in epoch seconds; 0 before the first."""
    return max(map(float, _TIDIED.findall(page)), default=0.0)


def family(pid: int) -> list[int]:
    """Return a process and all that it has started, as far as they live."""
    return [pid, *descendants_of(pid)]


def of_processes(pids: Sequence[int]) -> dict[str, float]:
    """Return what processes take: memory that is theirs alone and not the copy of a file, descriptors and threads."""
    rolled = [_text(Path(f"/proc/{pid}/smaps_rollup")) for pid in pids]
    kilobytes = sum(int(found) for text in rolled for found in _OWN.findall(text))
    return {
        "memory, MB": kilobytes / 1024,
        "descriptors": float(sum(len(_listed(f"/proc/{pid}/fd")) for pid in pids)),
        "threads": float(sum(len(_listed(f"/proc/{pid}/task")) for pid in pids)),
    }


def cpu_of(pids: Sequence[int]) -> float:
    """Return the seconds of processor time that processes have taken, and those of their children that have ended."""
    stats = [_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() for pid in pids]
    return sum(sum(map(int, stat[11:15])) for stat in stats if stat) / os.sysconf("SC_CLK_TCK")


def _of_tables(connection: psycopg.Connection) -> Iterator[tuple[str, float]]:
    names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    for (name,) in names:
        count = sql.SQL("SELECT count(*), pg_total_relation_size({}) FROM {}")
        row = connection.execute(count.format(sql.Literal(name), sql.Identifier(name))).fetchone()
        assert row is not None
        yield f"rows of {name}", float(row[0])
        yield f"kB of {name}", row[1] / 1024


def _sizes(folder: Path) -> list[int]:
    paths = (os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return [size for path in paths if (size := _size(path)) is not None]


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:  # gone since
        return None


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
