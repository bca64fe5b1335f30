"""What Flink itself said while the jobs ran, kept as lines of JSON so that it can be looked at again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

START: Final = "start.json"
LOOKS: Final = "looks.jsonl"
HISTORY: Final = "history"


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of one job at one instant.

    Attributes:
        at: Seconds of the curve.
        job: Name.
        is_running: Whether all of its subtasks ran.
        parallelism: By vertex name; empty where Flink did not tell.
        pending: Records that waited at the source; None where Flink did not tell.
    """

    at: float
    job: str
    is_running: bool
    parallelism: Mapping[str, int]
    pending: float | None


@dataclass(frozen=True)
class Recording:
    """A run.

    Attributes:
        folder: With the history of the daemon in it.
        start: Epoch seconds of the second 0 of the curve.
        looks: Oldest first.
    """

    folder: Path
    start: float
    looks: Sequence[Look]

    def of(self, job: str) -> list[Look]:
        """Return what was seen of one job."""
        return [look for look in self.looks if look.job == job]


def line(look: Look) -> str:
    """Return a look as one line."""
    return json.dumps(asdict(look)) + "\n"


def load(folder: Path) -> Recording:
    """Read a run that was recorded in a folder."""
    start = json.loads((folder / START).read_text(encoding="utf-8"))["start"]
    with (folder / LOOKS).open(encoding="utf-8") as lines:
        return Recording(folder, float(start), [Look(**json.loads(text)) for text in lines])
