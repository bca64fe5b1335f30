"""Whether the simulator agrees with Flink about one job, and the table that says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from testkit.scenarios.agreement.figures import Figures

SLOT_HOURS: Final = 0.10
"""Share of the slot-hours by which the simulator may be wrong."""

RESCALES: Final = 2
"""Rescales by which it may be wrong."""

LATE: Final = 0.20
"""Share of the minutes late by which it may be wrong,"""

LATE_MINUTES: Final = 1.0
"""or so many minutes, whichever is more."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The figures of one job.

    Attributes:
        flink: By Flink's own words.
        history: By the history of the daemon.
        simulated: By the simulator, on average of several runs.
    """

    policy: str
    flink: Figures
    history: Figures
    simulated: Figures

    def problems(self) -> Iterator[str]:
        """Yield in what the simulator does not agree with Flink."""
        flink, simulated = self.flink, self.simulated
        if abs(simulated.slot_hours - flink.slot_hours) > SLOT_HOURS * flink.slot_hours:
            yield f"{self.policy}: {simulated.slot_hours:.2f} slot-hours, and {flink.slot_hours:.2f} on Flink"
        if abs(simulated.rescales - flink.rescales) > RESCALES:
            yield f"{self.policy}: {simulated.rescales} rescales, and {flink.rescales} on Flink"
        late, really = simulated.minutes_late, flink.minutes_late
        if late is None or really is None:
            yield f"{self.policy}: nobody knows how late it was"
        elif abs(late - really) > max(LATE * really, LATE_MINUTES):
            yield f"{self.policy}: {late:.1f} minutes late, and {really:.1f} on Flink"


def table(comparisons: Sequence[Comparison]) -> str:
    """Return the figures as a table in Markdown."""
    head = "| policy | | slot-hours | rescales | minutes late |\n|---|---|---|---|---|\n"
    return head + "".join(
        f"| `{each.policy}` | {name} | {figures.slot_hours:.2f} | {figures.rescales} | {_late(figures)} |\n"
        for each in comparisons
        for name, figures in (
            ("Flink", each.flink),
            ("history", each.history),
            ("simulator", each.simulated),
        )
    )


def _late(figures: Figures) -> str:
    return "" if figures.minutes_late is None else f"{figures.minutes_late:.1f}"
