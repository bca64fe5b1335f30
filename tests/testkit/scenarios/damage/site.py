"""A cluster with a job whose rows are damaged and one whose rows are not, and the passes of a daemon over both."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, insert

from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.state.codec import StateType
from flink_autoscaler.stores.sql.tables import (
    EVENT_FIGURES,
    EVENTS,
    FORECAST_META,
    FORECAST_PROFILE,
    LEASE,
    NOTIFICATIONS,
    ORDERS,
    SCALINGS,
    SET_ASIDE,
    STATE,
    TOMBSTONES,
)
from testkit.builders.sql import an_event
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.runner import LogLines
from testkit.scenarios.runner.wired import in_database, settings_on, started

SICK: Final = "main/sick"
HEALTHY: Final = "main/healthy"
_VERTEX: Final = "0" * 32
_STATES: Final = (
    (StateType.SCALING_HISTORY, "{}"),
    (StateType.SCALING_TRACKING, '{"scalingRecords":{}}'),
    (StateType.PARALLELISM_OVERRIDES, ""),
    (StateType.CONFIG_OVERRIDES, '{"overrides":{},"removals":[]}'),
    (StateType.DELAYED_SCALE_DOWN, '{"delayedVertices":{}}'),
)
"""Beside the metric window, which the passes have left."""
_ORDER: Final = '{"pins":[{"pattern":"vertex 1","parallelism":1,"signed":{"who":"a","reason":"b","at_ms":1}}]}'


_TARGET: Final = "autoscaler.notifications.targets.0"
_OPTIONS: Final = {
    "job.autoscaler.metrics.window": "120 ms",
    "job.autoscaler.policy": "varga",
    "autoscaler.standalone.control-loop.interval": "100 ms",
    "autoscaler.standalone.event-handler.type": "JDBC",
    "autoscaler.standalone.jdbc.event-handler.ttl": "0 s",
    f"{_TARGET}.name": "ops",
    f"{_TARGET}.type": "webhook",
}


@dataclass(frozen=True)
class Seen:
    """What some passes came to, and what was logged meanwhile."""

    reports: tuple[PassReport, ...]
    lines: tuple[Mapping[str, Any], ...]
    set_aside: int


class Site:
    """The cluster, and a database as a daemon has left it.

    Args:
        flink: The cluster.
        folder: For databases.
    """

    def __init__(self, flink: FakeFlink, folder: Path) -> None:
        self._flink = flink
        self._folder = folder
        for name in ("sick", "healthy"):
            flink.add_job(name)
        flink.delay = 0.004
        self._original = folder / "original.db"
        self.passes(self._original, 3)
        with closing(_database(self._original)) as database, database.transaction() as connection:
            for job_key in (SICK, HEALTHY):
                _fill(connection, job_key)
            connection.execute(insert(EVENT_FIGURES).values(event_id=1, name="saved", value=1.0))
            connection.execute(insert(NOTIFICATIONS).values(**_notice()))
            connection.execute(insert(LEASE).values(name="other", owner="a", token=1, expires_at=1, renewed_at=1))

    def copy(self) -> Path:
        """Return a database of its own."""
        path = self._folder / "damaged.db"
        for old in self._folder.glob("damaged.db*"):
            old.unlink()
        with closing(_database(self._original)) as database, database.transaction() as connection:
            del connection
        shutil.copy(self._original, path)
        return path

    def passes(self, path: Path, count: int) -> Seen:
        """Start a daemon's parts, run some passes, and end them."""
        values = {**_OPTIONS, **in_database(f"jdbc:sqlite:{path}"), f"{_TARGET}.url": f"{self._flink.url}/hook"}
        with LogLines() as lines, started(settings_on(self._flink.url, values)) as (wiring, passes):
            reports = tuple(passes.run() for _ in range(count))
            set_aside = wiring.quarantined_count()
        return Seen(reports, tuple(lines.all()), set_aside)


def _database(path: Path) -> Database:
    return Database(DatabaseSettings(f"jdbc:sqlite:{path}"))


def _notice() -> dict[str, Any]:
    """Return a row of a notice that waits for a target."""
    texts = {"notice_id": "n", "writer": "flink-autoscaler", "target": "ops", "identity": "i", "claim": ""}
    instants = ("added_ms", "repeat_until_ms", "claimed_until_ms", "settled_ms")
    return {**texts, **dict.fromkeys(instants, 0), "added_ms": 1, "notice": "{}"}


def _fill(connection: Connection, job_key: str) -> None:
    """Give a job a row in every table that has none of it yet."""
    now = datetime.now()
    rows: list[tuple[Any, dict[str, Any]]] = [
        (ORDERS, {"cluster": "main", "orders": _ORDER, "version": 1}),
        (TOMBSTONES, {"cluster": "main", "gone_at_ms": 1}),
        (SET_ASIDE, {"state_type": "orders", "state_value": "x", "problem": "y", "set_aside_at": now}),
        (SCALINGS, _scaling(job_key)),
        (FORECAST_META, _profile()),
        (FORECAST_PROFILE, {"source_id": _VERTEX, "slot": 0, "q50": 1.0, "q90": 1.0, "weeks": 3}),
    ]
    rows += [(EVENTS, an_event(job_key))]
    rows += [(STATE, {"state_type": kind.value, "state_value": text, "update_time": now}) for kind, text in _STATES]
    for table, values in rows:
        connection.execute(insert(table).values(**{"job_key": job_key, **values}))


def _scaling(job_key: str) -> dict[str, Any]:
    numbers = {"is_executed": 1, "current_parallelism": 1, "new_parallelism": 2}
    return {"event_id": 1 + (job_key == SICK), "vertex_id": _VERTEX, "at_ms": 1, "vertex_name": "v", **numbers}


def _profile() -> dict[str, Any]:
    facts = {"level": 1.0, "growth": 0.0, "weeks": 3, "missing": 0.0, "wape": 0.1, "exceed": 0.1, "timezone": "UTC"}
    return {"source_id": _VERTEX, "asof_ms": 1_700_000_000_000, "version": 1, "revision": "abc", **facts}
