"""What the daemon says in its log, read while it is being written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Change:
    """One vertex of a decision; rates in records/s, None where unknown."""

    vertex: str
    before: int
    after: int
    capacity: float | None
    target_rate: float | None

    @property
    def reason(self) -> str:
        """Why, in one line."""
        return f"input {_rate(self.target_rate)}, capacity {_rate(self.capacity)} with {self.before}"


@dataclass(frozen=True)
class Decision:
    """A decision to rescale that is being carried out."""

    at: float
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Requested:
    """A request that Flink accepted: parallelism by vertex id."""

    at: float
    parallelism: Mapping[str, int]


@dataclass(frozen=True)
class Considered:
    """What a pass came to: how far it got, and its reasons."""

    at: float
    phase: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Trouble:
    """A warning or an error."""

    at: float
    text: str


@dataclass(frozen=True)
class Listening:
    """Where the daemon's pages are."""

    at: float
    url: str


Fact = Decision | Requested | Considered | Trouble | Listening


def parse_line(line: str) -> Fact | None:
    """Return what a line says, with its instant in epoch seconds; None for a line that is of no interest here."""
    try:
        record = json.loads(line)
        at = datetime.fromisoformat(record["timestamp"]).timestamp()
    except (ValueError, KeyError, TypeError):
        return None  # lines of the JVM, or half a line of a daemon that was killed
    if "logger" in record:
        return None  # what a library warns of is no trouble of the daemon
    if record.get("level") in ("warning", "error", "critical"):
        return Trouble(at, _trouble(record))
    match record.get("event"):
        case "scaling_report" if record["is_executed"]:
            return Decision(at, tuple(_change(vertex) for vertex in record["vertices"]))
        case "job_rescale_requested":
            return Requested(at, record["parallelism"])
        case "job_phase" | "job_reasons" | "job_reasons_flapping" | "job_reasons_settled":
            return Considered(at, record["phase"], tuple(record["reasons"]))
        case "http_listening":
            return Listening(at, record["url"])
    return None


def _change(vertex: Mapping[str, Any]) -> Change:
    return Change(
        vertex=vertex["name"],
        before=vertex["current"],
        after=vertex["new"],
        capacity=_number(vertex["capacity"]),
        target_rate=_number(vertex["target_rate"]),
    )


def _number(value: float | str | None) -> float | None:
    return None if value is None else float(value)


def _trouble(record: Mapping[str, Any]) -> str:
    facts = [str(record[name]) for name in ("reason", "text", "error") if record.get(name)]
    return ": ".join([str(record.get("event", "?")), *facts])


def _rate(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}/s"


class LogReader:
    """Gives the facts that were added to a log file since the last call."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._position = 0

    def new_facts(self) -> list[Fact]:
        """Return new facts in the order of their lines; a line that is not finished waits for the next call."""
        if not self._file.exists():
            return []
        with self._file.open("rb") as log:
            log.seek(self._position)
            added = log.read()
        complete = added[: added.rfind(b"\n") + 1]
        self._position += len(complete)
        lines = complete.decode(errors="replace").splitlines()
        return [fact for line in lines if (fact := parse_line(line)) is not None]
