"""A recording and its simulation side by side, as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.pipeline.backtest.fitting import FittedModel
from flink_autoscaler.pipeline.simulator import run
from testkit.scenarios.agreement import plan
from testkit.scenarios.agreement.comparing import Comparison, table
from testkit.scenarios.agreement.figures import Course, by_history, of_simulation, on_average, seen
from testkit.scenarios.agreement.recording import Recording
from testkit.scenarios.agreement.simulated import SEEDS, begin, fitted, rows, simulation

_REALLY: Final = 1e6 / plan.COST_MICROS


@dataclass(frozen=True)
class Report:
    """What came of it.

    Attributes:
        text: For people, in Markdown.
        problems: In what the simulator does not agree with Flink.
    """

    text: str
    problems: tuple[str, ...]


def reported(recording: Recording) -> Report:
    """Fit the recorded history, simulate the same half hour, and compare."""
    found = fitted(recording)
    comparisons = [_comparison(recording, policy, found[policy]) for policy in plan.POLICIES]
    problems = tuple(problem for each in comparisons for problem in each.problems())
    return Report("\n".join([table(comparisons), *_facts(found), *problems]), problems)


def _simulated(recording: Recording, policy: str, found: FittedModel) -> list[Course]:
    since = begin(recording, policy)
    return [of_simulation(run(simulation(found, policy, since, seed=seed)), since) for seed in SEEDS]


def _comparison(recording: Recording, policy: str, found: FittedModel) -> Comparison:
    vertices, rescales = (rows(recording, name, policy) for name in ("vertices", "rescales"))
    by_flink = seen(recording.of(policy), plan.CURVE)
    past = by_history(vertices, rescales, recording.start)
    simulated = _simulated(recording, policy, found)
    flink, history, *runs = (each.figures(plan.SECONDS, plan.LATE[policy]) for each in (by_flink, past, *simulated))
    return Comparison(policy, flink, history, on_average(runs))


def _facts(found: dict[str, FittedModel]) -> Iterator[str]:
    for policy, model in found.items():
        rates = ", ".join(f"{vertex.name} {vertex.rate:.1f}" for vertex in model.model.vertices)
        outages = ", ".join(f"{outage:.1f}" for outage in model.outages)
        yield f"{policy}: records/s per subtask: {rates} (work: {_REALLY:g} at most); outages: {outages} s\n"
