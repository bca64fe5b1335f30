"""Results of the study, a line of JSON each, and the table that they come to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Final

from benchmarks.policy_study.cases import LATE_WEIGHT, Case
from flink_autoscaler.pipeline.simulator.workloads import DAY, WEEK

BUDGET: Final = 0.005
"""Share of the time that a job may be late: the default of ``slo.error-budget``."""

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Result:
    """What a policy came to on a load.

    Attributes:
        label: Of the policy, with its options and its checkout where they are not the usual ones.
        code: Digest of the program that was simulated; other code is another result.
        case: The load.
        figures: See :func:`benchmarks.policy_study.simulate.simulate`.
        oracle: See :meth:`Case.oracle`.
    """

    label: str
    code: str
    case: Case
    figures: Figures
    oracle: Figures

    @property
    def cost(self) -> float:
        """Slot-seconds with lateness at its price, over those of the oracle."""
        own, best = (each["slot_seconds"] + LATE_WEIGHT * each["late"] for each in (self.figures, self.oracle))
        return own / best

    @property
    def slots(self) -> float:
        """Slot-seconds over those of the oracle."""
        return self.figures["slot_seconds"] / self.oracle["slot_seconds"]

    @property
    def late(self) -> float:
        """Share of the time that the job was late."""
        return self.figures["late"] / self.figures["duration"]

    @property
    def rescales(self) -> float:
        """Rescales a day."""
        return self.figures["rescales"] / (self.figures["duration"] / DAY)

    @property
    def processor(self) -> float:
        """Seconds of processor time that a week takes, simulator included."""
        return self.figures["processor"] / self.figures["duration"] * WEEK


def read_results(path: Path) -> list[Result]:
    """Read a file of results, oldest first; none where there is no file, and a last line that is cut off is skipped."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = []
    for line in lines:
        try:
            stored = json.loads(line)
        except ValueError:
            continue
        found.append(Result(**{**stored, "case": Case(**stored["case"])}))
    return found


def append_result(path: Path, result: Result) -> None:
    """Add a line to a file of results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(result)) + "\n")


COLUMNS: Final = (
    *("load", "policy", "runs", "cost", "slots ÷ oracle", "late, %", "minutes late a week", "over budget"),
    *("rescales a day", "processor, s a week"),
)


def table(results: Iterable[Result], cases: Sequence[Case], labels: Sequence[str]) -> list[str]:
    """Return the lines of a Markdown table: every load by policy, then all loads that all policies have results of.

    Costs and slots are geometric means over seeds, and over loads in the end, where the greatest is in brackets.
    """
    newest = {(each.label, each.case): each for each in results}
    lines = [_line(COLUMNS), _line(("---",) * len(COLUMNS))]
    for pair, shape in dict.fromkeys((case.pair, case.shape) for case in cases):
        same = [case for case in cases if (case.pair, case.shape) == (pair, shape)]
        found = {label: [newest[label, case] for case in same if (label, case) in newest] for label in labels}
        lines.extend(_line((f"{shape} {pair}", label, *_cells(each))) for label, each in found.items() if each)
    lines.extend(_line((f"**all {pair}**", label, *cells)) for pair, label, cells in _all(newest, cases, labels))
    return lines


def _all(
    newest: Mapping[tuple[str, Case], Result], cases: Sequence[Case], labels: Sequence[str]
) -> Iterator[tuple[str, str, list[str]]]:
    for pair in dict.fromkeys(case.pair for case in cases):
        shared = [c for c in cases if c.pair == pair and all((label, c) in newest for label in labels)]
        for label in labels if shared else ():
            yield pair, label, summary([newest[label, case] for case in shared])


def summary(results: Sequence[Result]) -> list[str]:
    """Return the cells of a row over many loads."""
    cells = _cells(results)
    cells[1] += f" ({max(each.cost for each in results):.2f})"
    cells[2] += f" ({max(each.slots for each in results):.2f})"
    return cells


def _cells(results: Sequence[Result]) -> list[str]:
    late = fmean(each.late for each in results)
    return [
        str(len(results)),
        f"{geometric_mean(each.cost for each in results):.3f}",
        f"{geometric_mean(each.slots for each in results):.3f}",
        f"{100 * late:.2f}",
        f"{late * WEEK / 60:.0f}",
        str(sum(each.late > BUDGET for each in results)),
        f"{fmean(each.rescales for each in results):.1f}",
        f"{fmean(each.processor for each in results):.0f}",
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
