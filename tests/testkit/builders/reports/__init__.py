"""Histories of a made-up fleet for reports: loads that rise and fall with the day, and jobs that follow them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flink_autoscaler.pipeline.tables.rows import NamedRow
from flink_autoscaler.pipeline.tables.schema import DECISIONS, RESCALES, SAMPLES, VERTICES
from testkit.builders.history import NOON_MS, a_storage, write

DAY = 86_400
NOON = NOON_MS // 1000
SOURCE, MAP = "5" * 32, "a" * 32
RATE_PER_SUBTASK = 100.0


@dataclass(frozen=True)
class MadeJob:
    """A job whose load swings around a mean; a subtask of ``map`` is worth 100 records/s, and is used up to 80 %.

    Attributes:
        end: Epoch seconds, exclusive.
        step: Seconds between passes.
        mean: Records/s.
        swing: Share of the mean by which the load rises and falls with the day.
        lag: Records that wait in the hour after each noon.
        supervision: In the last pass.
        reason: Code of the reason of every pass.
    """

    key: str = "main/orders"
    end: int = NOON
    days: float = 1.0
    step: int = 600
    mean: float = 400.0
    swing: float = 0.5
    lag: float = 0.0
    vertex_name: str = "map"
    supervision: str = "stable"
    reason: str = "WITHIN_BOUNDS"
    text: str = "within bounds"
    error: str | None = None
    phase: str = "executed"

    @property
    def instants(self) -> range:
        """All passes."""
        return range(self.end - round(self.days * DAY), self.end, self.step)

    def load(self, at: int) -> float:
        """Return the records/s that arrive."""
        return self.mean * (1 + self.swing * math.sin(2 * math.pi * at / DAY))

    def parallelism(self, at: int) -> int:
        """Return the subtasks of ``map``."""
        return max(1, math.ceil(self.load(at) / (0.8 * RATE_PER_SUBTASK)))

    def rows(self) -> Iterator[NamedRow]:
        """Make the rows of all tables."""
        before: int | None = None
        for at in self.instants:
            now = self.parallelism(at)
            yield from self._pass(at, now)
            if before is not None and before != now:
                yield RESCALES.name, self._rescale(at, before, now)
            before = now

    def who(self, at: int) -> dict[str, Any]:
        """Return the columns that every table has."""
        return {
            "cluster": self.key.partition("/")[0],
            "job_key": self.key,
            "job_id": "c" * 32,
            "ts": at * 1_000_000,
        }

    def _pass(self, at: int, parallelism: int) -> Iterator[NamedRow]:
        load, who = self.load(at), self.who(at)
        is_last = at == self.instants[-1]
        yield (
            DECISIONS.name,
            {
                **who,
                "phase": self.phase,
                "status": "RUNNING",
                "decision": "hold",
                "reasons": [{"code": self.reason, "text": self.text, "vertex_id": None}],
                "error": self.error,
                "supervision": self.supervision if is_last else "stable",
            },
        )
        if self.phase != "executed":
            return
        lag = self.lag if at % DAY // 3600 == 12 else 0.0
        source = {"source_id": SOURCE, "source_name": "source", "arrival_rate": load, "consumption_rate": load}
        yield SAMPLES.name, {**who, **source, "lag": lag, "parallelism": 1, "span": float(self.step)}
        for vertex_id, name, size in ((SOURCE, "source", 1), (MAP, self.vertex_name, parallelism)):
            rate = 10_000.0 if vertex_id == SOURCE else RATE_PER_SUBTASK * size
            yield (
                VERTICES.name,
                {
                    **who,
                    "vertex_id": vertex_id,
                    "vertex_name": name,
                    "is_source": vertex_id == SOURCE,
                    "parallelism": size,
                    "max_parallelism": 128,
                    "true_rate": rate,
                    "target_rate": load,
                    "busy": load / rate,
                },
            )

    def _rescale(self, at: int, before: int, now: int, **other: Any) -> dict[str, Any]:
        return {
            **self.who(at + 30),
            "decided_at": at * 1_000_000,
            "settled_at": (at + 30) * 1_000_000,
            "origin": "autoscaler",
            "mechanism": "inplace",
            "stage": "reached",
            "reason": "reached in 12 s",
            "outage": 12.0,
            "before": [{"vertex_id": SOURCE, "parallelism": 1}, {"vertex_id": MAP, "parallelism": before}],
            "target": [{"vertex_id": SOURCE, "parallelism": 1}, {"vertex_id": MAP, "parallelism": now}],
            "reached": [{"vertex_id": MAP, "parallelism": now}],
            "reverted": False,
            **other,
        }

    def bad_rescale(self, at: int, **other: Any) -> NamedRow:
        """Make the row of a rescale from 4 to 6 that is given other columns."""
        return RESCALES.name, self._rescale(at, 4, 6, **other)


def write_history(root: Path, *jobs: MadeJob, extra: tuple[NamedRow, ...] = ()) -> Path:
    """Write the rows of some jobs, and others, as one batch."""
    write(a_storage(root), [row for job in jobs for row in job.rows()] + [*extra])
    return root
