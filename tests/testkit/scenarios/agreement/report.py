"""A recording and its simulation side by side, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.pipeline.backtest.fitting import FittedModel
from flink_autoscaler.pipeline.simulator import run
from testkit.scenarios.agreement import plan
from testkit.scenarios.agreement.comparing import Comparison, courses, table
from testkit.scenarios.agreement.figures import Course, Figures, by_history, integral, of_simulation, on_average, seen
from testkit.scenarios.agreement.recording import Recording
from testkit.scenarios.agreement.simulated import METER_WINDOW, SEEDS, begin, fitted, rows, simulation

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


@dataclass(frozen=True)
class _Courses:
    """The courses of one job; those of the simulator by their slot-hours, with Flink's own meters and exact ones."""

    policy: str
    flink: Course
    simulated: Sequence[Course]
    exact: Sequence[Course]


def reported(recording: Recording) -> Report:
    """Fit the recorded history, simulate the same half hour, and compare."""
    found = fitted(recording)
    each_course = [_courses(recording, policy, found[policy]) for policy in plan.POLICIES]
    comparisons = [_comparison(recording, each) for each in each_course]
    problems = tuple(problem for each in comparisons for problem in each.problems())
    parts = [table(comparisons), *_facts(found), *map(_told, each_course), *problems]
    return Report("\n".join(parts), problems)


def _courses(recording: Recording, policy: str, found: FittedModel) -> _Courses:
    return _Courses(
        policy,
        seen(recording.of(policy), plan.CURVE),
        _simulated(recording, policy, found, METER_WINDOW),
        _simulated(recording, policy, found, 0.0),
    )


def _simulated(recording: Recording, policy: str, found: FittedModel, window: float) -> list[Course]:
    since = begin(recording, policy)
    simulations = (simulation(found, policy, since, seed=seed, window=window) for seed in SEEDS)
    courses_of_all = (of_simulation(run(each), since) for each in simulations)
    return sorted(courses_of_all, key=lambda course: integral(course.sizes, plan.SECONDS))


def _comparison(recording: Recording, of: _Courses) -> Comparison:
    vertices, rescales = (rows(recording, name, of.policy) for name in ("vertices", "rescales"))
    history = by_history(vertices, rescales, recording.start)

    def figures(courses_of_one: Sequence[Course]) -> list[Figures]:
        return [each.figures(plan.SECONDS, plan.LATE[of.policy]) for each in courses_of_one]

    flink, past = figures([of.flink, history])
    simulated = figures(of.simulated)
    extremes = (simulated[0], simulated[-1])
    return Comparison(of.policy, flink, past, on_average(simulated), extremes, on_average(figures(of.exact)))


def _told(of: _Courses) -> str:
    return courses(of.policy, of.flink, of.simulated[len(of.simulated) // 2])


def _facts(found: dict[str, FittedModel]) -> Iterator[str]:
    for policy, model in found.items():
        rates = ", ".join(f"{vertex.name} {vertex.rate:.1f}" for vertex in model.model.vertices)
        outages = ", ".join(f"{outage:.1f}" for outage in model.outages)
        yield f"{policy}: records/s per subtask: {rates} (work: {_REALLY:g} at most); outages: {outages} s\n"
