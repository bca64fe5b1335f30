"""Story of the demo so far: what the daemon logs, what Flink shows, and whether the promises were kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]

# Flink's metrics are up to 3 s old; over 8 s that is little.
_ARRIVAL_SPAN = 8.0
# In a restart the lag is unknown or, before splits are assigned, 0: one look proves nothing.
_FINAL_SPAN = 6.0


class LogReader:
    """Gives the records that were added to the log file of a daemon since the last call."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._position = 0

    def new_records(self) -> list[Json]:
        """Return new records in the order of their lines; a line that is not finished waits for the next call."""
        if not self._file.exists():
            return []
        with self._file.open("rb") as log:
            log.seek(self._position)
            added = log.read()
        complete = added[: added.rfind(b"\n") + 1]
        self._position += len(complete)
        lines = complete.decode(errors="replace").splitlines()
        return [record for line in lines if (record := parse_line(line)) is not None]


def parse_line(line: str) -> Json | None:
    """Return what a line says, with epoch seconds as ``at``; None for what the daemon has not written."""
    try:
        record = json.loads(line)
        at = datetime.fromisoformat(record["timestamp"]).timestamp()
    except (ValueError, KeyError, TypeError):
        return None  # lines of the JVM, or half a line of a daemon that was killed
    # What a library warns of is no trouble of the daemon.
    return None if "logger" in record else {**record, "at": at}


@dataclass(frozen=True)
class Look:
    """One look at the job through Flink's REST API.

    Attributes:
        at: Epoch seconds.
        parallelism: By vertex name, while every subtask runs; None in a restart.
        lag: Records waiting at the source; None when not answered.
        taken: Records that the source has emitted since the start of the job, rescales included.
    """

    at: float
    parallelism: Mapping[str, int] | None = None
    lag: float | None = None
    taken: float | None = None


@dataclass
class Change:
    """One vertex of a decision of the daemon.

    Attributes:
        at: Epoch seconds.
        reason: Why, in one line.
        confirmed: Seconds until Flink showed the vertex running with it; None while it has not.
    """

    at: float
    vertex: str
    before: int
    after: int
    reason: str
    confirmed: float | None = None


@dataclass(frozen=True)
class Rescale:
    """A vertex that was seen running with another parallelism than before: Flink's own answer.

    Attributes:
        at: Epoch seconds.
        change: What the daemon had decided about the vertex; None when it was not the daemon.
    """

    at: float
    vertex: str
    before: int
    after: int
    change: Change | None = None

    @property
    def is_up(self) -> bool:
        """True when the vertex has more subtasks than before."""
        return self.after > self.before


@dataclass
class Story:
    """Collects looks at the job and records of the daemon's log. Belongs to one thread.

    Attributes:
        vertices: Name by vertex id; an id without a name stands for itself.
        changes: What the daemon decided to change, in order.
        notes: Instants in epoch seconds, and a line about what happened.
        parallelism: Real parallelism by vertex name, as last seen with every subtask running.
        wanted: Parallelism by vertex name that the daemon last requested; empty before the first time.
        phase: How far the last pass got, and its reasons; empty before the first one.
    """

    vertices: Mapping[str, str] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    rescales: list[Rescale] = field(default_factory=list)
    notes: list[tuple[float, str]] = field(default_factory=list)
    parallelism: dict[str, int] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    phase: str = ""
    reasons: tuple[str, ...] = ()

    def add_sample(self, look: Look) -> None:
        """Add a look; a parallelism that differs from the one before is a confirmed rescale."""
        self.looks.append(look)
        for vertex, after in (look.parallelism or {}).items():
            before = self.parallelism.get(vertex, after)
            self.parallelism[vertex] = after
            if before == after:
                continue
            change = next((each for each in reversed(self.changes) if each.vertex == vertex), None)
            if change is not None and change.after == after and change.confirmed is None:
                change.confirmed = look.at - change.at
            self.rescales.append(Rescale(look.at, vertex, before, after, change))
            self.notes.append((look.at, f"confirmed: {vertex} runs with {after}, had {before}"))

    def add_log_record(self, record: Json) -> None:
        """Add what the daemon said."""
        at, event = record["at"], record.get("event")
        if record.get("level") in ("warning", "error", "critical"):
            facts = [str(record[name]) for name in ("reason", "text", "error") if record.get(name)]
            self.notes.append((at, f"warning: {': '.join([str(event), *facts])}"))
        elif event == "scaling_report" and record["is_executed"]:
            self._decide(at, record["vertices"])
        elif event == "job_rescale_requested":
            self.wanted.update({self.vertices.get(key, key): value for key, value in record["parallelism"].items()})
        elif event in ("job_phase", "job_reasons", "job_reasons_flapping", "job_reasons_stable"):
            self.phase, self.reasons = record["phase"], tuple(record["reasons"])

    def _decide(self, at: float, vertices: list[Json]) -> None:
        for vertex in vertices:
            name, before, after = vertex["name"], vertex["current"], vertex["new"]
            target_rate, capacity = _rate(vertex["target_rate"]), _rate(vertex["capacity"])
            reason = f"input {target_rate}, capacity {capacity} with {before}"
            self.changes.append(Change(at, name, before, after, reason))
            self.notes.append((at, f"decided: {name} {before} -> {after} ({reason})"))

    @property
    def lag(self) -> float | None:
        """The last lag that Flink told."""
        return next((look.lag for look in reversed(self.looks) if look.lag is not None), None)

    @property
    def final_lag(self) -> float | None:
        """The greatest lag of the last seconds; None when Flink did not tell it then."""
        recent = [look for look in self.looks if look.at >= self.looks[-1].at - _FINAL_SPAN]
        return max((look.lag for look in recent if look.lag is not None), default=None)

    def arrivals(self) -> list[tuple[float, float]]:
        """Return instants and the records/s that arrived around them.

        What was taken and what waits add up to what has arrived, in a restart too. Only looks at which Flink had new
        numbers count.
        """
        points: list[tuple[float, float]] = []
        for look in self.looks:
            if look.lag is not None and look.taken is not None:
                total = look.lag + look.taken
                if not points or total > points[-1][1]:
                    points.append((look.at, total))
        slopes: list[tuple[float, float]] = []
        first = 0
        for at, total in points:
            while first + 1 < len(points) and points[first + 1][0] <= at - _ARRIVAL_SPAN:
                first += 1
            since, before = points[first]
            if at - since >= _ARRIVAL_SPAN:
                slopes.append((at, (total - before) / (at - since)))
        return slopes


def _rate(value: float | str | None) -> str:
    return "unknown" if value is None else f"{float(value):,.0f}/s"


def shortfalls(story: Story, drained_lag: float) -> list[str]:
    """Return what is missing for a success; empty when the demo showed what it promises."""
    asked = [rescale for rescale in story.rescales if rescale.change is not None]
    found = []
    if not any(rescale.is_up for rescale in asked):
        found.append("no scale-up by the daemon was confirmed by Flink")
    if all(rescale.is_up for rescale in asked):
        found.append("no scale-down by the daemon was confirmed by Flink")
    if story.final_lag is None:
        found.append("Flink did not tell the lag at the end")
    elif story.final_lag > drained_lag:
        found.append(f"the lag did not drain: {story.final_lag:,.0f} records wait, at most {drained_lag:,.0f} may")
    return found
