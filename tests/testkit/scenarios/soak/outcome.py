"""What came of a soak, and what it says about the daemon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from testkit.scenarios.soak.growth import CONFIDENCE, Growth, Tolerance, judged
from testkit.scenarios.soak.plan import FILLING, Plan
from testkit.scenarios.soak.sampling import TOLERANCES

SETTLED: Final = 200
"""Passes over a cluster after which memory and threads have settled: caches are full, pools have all their threads, and
what these once took is theirs."""

RESCALING: Final = 6
"""Passes over a cluster in a round with which jobs are rescaled; with fewer no metric window fills between two steps of
the clock. A machine that has much more to do gets there."""

_UNSETTLED: Final = Tolerance(0.15, 1.0)
"""For both where there were fewer, as in a short run or on a busy machine: it finds leaks that are larger."""


@dataclass(frozen=True)
class Round:
    """Half a day.

    Attributes:
        figures: What the daemon took, by name: the median of the round.
        passes: That succeeded, over all clusters.
        rescales: Requests for another parallelism.
        gone: Jobs that left.
        problem: Why the daemon was not well again in the end; empty where it was.
    """

    number: int
    figures: Mapping[str, float]
    passes: float
    rescales: int
    gone: int
    problem: str = ""

    def __str__(self) -> str:
        shown = ("memory, MB", "descriptors", "threads", "series of /metrics")
        figures = "  ".join(f"{name} {self.figures.get(name, 0.0):.1f}" for name in shown)
        told = (
            f"round {self.number + 1:2d}: {self.passes:4.0f} passes  {self.rescales:4d} rescales  {self.gone:3d} gone"
        )
        return f"{told}  {figures}{'  NOT WELL: ' + self.problem if self.problem else ''}"


@dataclass
class Outcome:
    """What came of a run.

    Attributes:
        rounds: In their order.
        problems: What went wrong beside them.
        cpu: Seconds of processor time of the daemon.
        cpu_of_all: Of all processes of the soak.
        seconds: That it took.
        log_bytes: What the daemon has logged.
    """

    plan: Plan
    rounds: list[Round] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    cpu: float = 0.0
    cpu_of_all: float = 0.0
    seconds: float = 0.0
    log_bytes: int = 0

    @cached_property
    def growths(self) -> Mapping[str, Growth]:
        """What became of every figure in the rounds that are judged."""
        judged_rounds = self.rounds[FILLING:]
        names = dict.fromkeys(name for each in judged_rounds for name in each.figures)
        return {
            name: judged([each.figures.get(name, 0.0) for each in judged_rounds], self._tolerance(name))
            for name in names
        }

    def _tolerance(self, name: str) -> Tolerance:
        filling = sum(each.passes for each in self.rounds[:FILLING]) / self.plan.clusters
        is_filling = name.startswith(("memory", "threads")) and filling < SETTLED
        return _UNSETTLED if is_filling else tolerance_of(name)

    @property
    def faults(self) -> list[str]:
        """What a daemon must not do, in words; empty where all is well."""
        growing = [
            f"{name} grows: {growth.first:.1f} to {growth.last:.1f}"
            for name, growth in self.growths.items()
            if growth.grows
        ]
        unwell = [f"round {each.number + 1}: {each.problem}" for each in self.rounds if each.problem]
        judged_rounds = self.rounds[FILLING:]
        passes = sum(each.passes for each in judged_rounds) / self.plan.clusters
        is_idle = passes >= RESCALING * len(judged_rounds) and not sum(each.rescales for each in judged_rounds)
        idle = ["nothing was rescaled in the rounds that are judged"] if is_idle else []
        return [*growing, *unwell, *idle, *self.problems]

    def table(self) -> str:
        """Return every figure with its slope, and by what it grows at most with a thousand passes over each cluster."""
        rounds = len(self.rounds) - FILLING
        passes = sum(each.passes for each in self.rounds[FILLING:]) / max(1, rounds) / self.plan.clusters
        head = f"{'':38}{'first':>10}{'last':>10}{'a round':>10}  {CONFIDENCE:.0%} between{'':13}{'1,000 passes <':>16}"
        lines = [head, *(_line(name, growth, 1000 / max(1.0, passes)) for name, growth in sorted(self.growths.items()))]
        return "\n".join([*lines, "", self._totals()])

    def _totals(self) -> str:
        passes = sum(each.passes for each in self.rounds)
        return (
            f"{self.seconds:.0f} s, {len(self.rounds)} rounds, {passes:.0f} passes over {self.plan.clusters} clusters,"
            f" {sum(each.rescales for each in self.rounds)} rescales,"
            f" {sum(each.gone for each in self.rounds)} jobs left;"
            f" processor time {self.cpu:.0f} s of the daemon, {self.cpu_of_all:.0f} s of all;"
            f" {self.log_bytes / max(1.0, passes):.0f} bytes of log per pass"
        )


def tolerance_of(name: str) -> Tolerance:
    """Return what a figure may grow by."""
    return next(tolerance for word, tolerance in TOLERANCES.items() if name.startswith(word))


def _line(name: str, growth: Growth, rounds: float) -> str:
    found = growth.slope
    between = f"{found.low:+10.3f} … {found.high:+10.3f}"
    verdict = "GROWS" if growth.grows else ""
    most = max(0.0, found.high) * rounds
    return f"{name:38}{growth.first:10.1f}{growth.last:10.1f}{found.middle:+10.3f}  {between}{most:16.1f}  {verdict}"
