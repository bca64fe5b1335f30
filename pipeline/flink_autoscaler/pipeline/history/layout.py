"""Where the files of the history are.

``<root>/<table>/version=<n>/date=<UTC day>/cluster=<name>/<batch>.parquet``; without the last folder where days are not
divided. What begins with an underscore is not data: ``_staging`` holds files that are being written, ``_pending`` rows
that wait for it, ``_replaces-*.json`` beside a compacted file names the files it stands for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final
from urllib.parse import quote, unquote

from flink_autoscaler.pipeline.history.schema import TABLES, VERSION

PENDING: Final = "_pending"
LOCK: Final = "_maintenance.json"
REPLACES: Final = "_replaces-"
SUFFIX: Final = ".parquet"

_FOLDER: Final = re.compile(
    r"(?P<table>[a-z]+)/version=(?P<version>\d+)/date=(?P<date>\d{4}-\d\d-\d\d)(/cluster=(?P<cluster>[^/]+))?"
)
NO_CLUSTER: Final = "__HIVE_DEFAULT_PARTITION__"
"""What Spark and Hive call the folder of rows without a value."""


@dataclass(frozen=True, slots=True, order=True)
class Folder:
    """One folder of files.

    Attributes:
        day: UTC.
        cluster: None where it holds all clusters.
    """

    table: str
    day: date
    cluster: str | None = None
    version: int = VERSION

    @property
    def path(self) -> str:
        """Relative to the history."""
        cluster = "" if self.cluster is None else f"/cluster={quote(self.cluster, safe='')}"
        return f"{self.table}/version={self.version}/date={self.day.isoformat()}{cluster}"

    @classmethod
    def of(cls, path: str) -> Folder | None:
        """Read a path relative to the history; None for one that is not a folder of files."""
        match = _FOLDER.fullmatch(path)
        if match is None or match["table"] not in TABLES:
            return None
        try:
            day = date.fromisoformat(match["date"])
        except ValueError:
            return None
        cluster = match["cluster"]
        return cls(match["table"], day, None if cluster is None else unquote(cluster), int(match["version"]))


@dataclass(frozen=True, slots=True)
class Selection:
    """Which part of the history is meant. Instants are epoch milliseconds; None is without a limit.

    Attributes:
        since_ms: First instant.
        until_ms: The instant after the last.
        clusters: Names; None takes all.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    clusters: frozenset[str] | None = None

    def covers(self, folder: Folder) -> bool:
        """Tell whether a folder may hold rows that are meant."""
        if self.since_ms is not None and folder.day < day_of(self.since_ms):
            return False
        if self.until_ms is not None and folder.day > day_of(self.until_ms - 1):
            return False
        return self.clusters is None or folder.cluster is None or folder.cluster in self.clusters


EVERYTHING: Final = Selection()


def day_of(at_ms: int) -> date:
    """Return the UTC day of an instant."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).date()
