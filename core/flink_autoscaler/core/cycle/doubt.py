"""The second look at a plan: a rescale that hangs on one sample of the metric window waits for the next pass.

One wrong answer stays in the window for as long as the window is. Where the pass would decide something else without
it, it alone would rescale the job; so would an exceptional moment that is over before the job is back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flink_autoscaler.core.decide.decision import Looked, decide
from flink_autoscaler.core.decide.plan import Plan, held_back_event
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric, VertexId
from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.model.state import ScalingSummaries
from flink_autoscaler.core.policies.choosing import Chosen
from flink_autoscaler.core.ports.passes import EvaluatedJob
from flink_autoscaler.core.ports.plugins import Plugins

CODE: Final = "SAMPLE_DOUBTED"
EVENT: Final = "SampleDoubted"

MEMORY: Final = "sample_doubt"
"""Under which a plan is remembered, beside what policies remember, that could not be compared with another one."""

NEWEST: Final = 3
"""The latest samples, each of which a plan has to do without."""

EXTREME: Final = 3
"""Samples that move averages most, each of which a plan has to do without, too."""

LARGER: Final = 1.5
"""Greatest factor between the sizes with and without a sample."""

_AVERAGED: Final = (ScalingMetric.LOAD, ScalingMetric.NUM_RECORDS_IN_PER_SECOND, ScalingMetric.OBSERVED_TPR)
_GROWING: Final = (ScalingMetric.NUM_RECORDS_IN, ScalingMetric.NUM_RECORDS_OUT, ScalingMetric.LAG)
_LEAST: Final = 2
_TINY: Final = 1e-9
_INCOMPARABLE: Final = (AutoscalerError, ArithmeticError, ValueError, TypeError, LookupError)

Sizes = Mapping[VertexId, int]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two plans for a job differ most.

    Attributes:
        present: Parallelism of the vertex now.
        planned: What the plan gives it.
        otherwise: What the other one does.
    """

    vertex_id: VertexId
    present: int
    planned: int
    otherwise: int


@quick
@dataclass(frozen=True, slots=True)
class SecondLook:
    """Decides a pass again without single samples.

    Attributes:
        job: As it was evaluated with all of them.
        samples: All of them, oldest first.
        without: Evaluates the pass without the sample of a number.
        plugins: Of the pass.
    """

    job: EvaluatedJob
    samples: Sequence[MetricSample]
    without: Callable[[int], EvaluatedJob]
    plugins: Plugins

    def __call__(self, plan: Plan, chosen: Chosen) -> Looked:
        """Return what is left of a plan: all of it, or nothing where it hangs on a sample."""
        if chosen.confirmed or plan.changes.keys() <= plan.at_once:
            return Looked(plan, chosen.memories)
        planned = {vertex_id: change.new for vertex_id, change in plan.changes.items()}
        is_comparable = True
        for index in suspects(self.samples):
            other = self._planned_without(index, chosen)
            if other is None:
                is_comparable = False
            elif found := difference(planned, other, self._present):
                return Looked(self._doubted(plan, found, index), chosen.memories)
        if is_comparable or self._is_repeated(planned):
            return Looked(plan, chosen.memories)
        return Looked(self._postponed(plan), {**chosen.memories, MEMORY: self._memory(planned)})

    @property
    def _present(self) -> Sizes:
        return {vertex_id: vertex.parallelism for vertex_id, vertex in self.job.topology.vertices.items()}

    def _planned_without(self, index: int, chosen: Chosen) -> Sizes | None:
        """Return what the pass would decide without a sample; None where too little is left to say."""
        if len(self.samples) <= _LEAST:
            return None
        try:
            decision = decide(self.without(index), self.plugins, confirmed=chosen.confirmed).decision
        except _INCOMPARABLE:
            return None
        changes: ScalingSummaries = decision.summaries if isinstance(decision, Rescale) else {}
        return {vertex_id: change.new for vertex_id, change in changes.items()}

    def _doubted(self, plan: Plan, found: Difference, index: int) -> Plan:
        age = (self.samples[-1].at_ms - self.samples[index].at_ms) / 1000
        without = "without the newest metric sample" if age <= 0 else f"without the metric sample of {age:.0f} s ago"
        otherwise = f"stay at {found.present}" if found.otherwise == found.present else f"go to {found.otherwise}"
        text = f"would go from {found.present} to {found.planned}, but {otherwise} {without}; the next pass decides"
        figures = (
            ("present", float(found.present)),
            ("planned", float(found.planned)),
            ("without_sample", float(found.otherwise)),
            ("sample_age", age),
        )
        name = self.job.topology.vertices[found.vertex_id].name
        event = held_back_event(self.job.context, EVENT, f"{name} {text}", figures)
        return plan.explained(CODE, text, found.vertex_id, figures).told(event).dropped()

    def _postponed(self, plan: Plan) -> Plan:
        text = "the metric window is too short to do without one of its samples; the next pass has to come to the same"
        figures = (("samples", float(len(self.samples))),)
        event = held_back_event(self.job.context, EVENT, text, figures)
        return plan.explained(CODE, text, figures=figures).told(event).dropped()

    def _memory(self, planned: Sizes) -> Mapping[str, Any]:
        return {"at_ms": self.samples[-1].at_ms, "planned": dict(planned)}

    def _is_repeated(self, planned: Sizes) -> bool:
        """Tell whether an earlier sample of the window has come to the same plan when it was the newest."""
        match self.job.state.policies.get(MEMORY):
            case {"at_ms": int(at_ms), "planned": dict(before)}:
                is_earlier = any(sample.at_ms == at_ms for sample in self.samples[:-1])
                return is_earlier and difference(planned, before, self._present) is None
        return False


def difference(planned: Sizes, other: Sizes, present: Sizes) -> Difference | None:
    """Return where two plans differ most; None where both change the same in one direction, by about as much.

    Args:
        planned: New parallelism of the vertices that a plan changes; not empty.
        other: The same of another plan, which may be empty.
        present: Parallelism of all vertices.
    """
    changed = [
        Difference(v, present[v], planned.get(v, present[v]), other.get(v, present[v]))
        for v in present
        if v in planned or v in other
    ]
    worst = max(changed, key=_contrast, default=None)
    if worst is None or (_contrast(worst) <= LARGER and any(_is_agreed(each) for each in changed)):
        return None
    return worst


def _is_agreed(found: Difference) -> bool:
    return (found.planned - found.present) * (found.otherwise - found.present) > 0


def _contrast(found: Difference) -> float:
    """Return the factor between two sizes; infinite where one is above what the vertex has and the other below."""
    if (found.planned - found.present) * (found.otherwise - found.present) < 0:
        return math.inf
    return max(found.planned, found.otherwise) / max(1, min(found.planned, found.otherwise))


def suspects(samples: Sequence[MetricSample]) -> list[int]:
    """Return the numbers of the samples that a plan may hang on, the newest first.

    Those are the newest ones, those that rates begin with, and those that move averages most: what one sample alone
    brings about is brought about by one of these.
    """
    newest = range(max(0, len(samples) - NEWEST), len(samples))
    return sorted({*newest, *_first_known(samples), *_extremes(samples)}, reverse=True)


def _first_known(samples: Sequence[MetricSample]) -> Iterator[int]:
    """Yield the numbers of the samples that the rates of vertices begin with."""
    for vertex_id in samples[-1].vertices:
        for metric in _GROWING:
            known = (index for index, value in _values(samples, vertex_id, metric) if not math.isnan(value))
            yield from (index for index in [next(known, None)] if index is not None)


def _extremes(samples: Sequence[MetricSample]) -> list[int]:
    """Return the numbers of the samples without which some average would be most different."""
    effects: dict[int, float] = {}
    for vertex_id in samples[-1].vertices:
        for metric in _AVERAGED:
            known = [(i, value) for i, value in _values(samples, vertex_id, metric) if math.isfinite(value)]
            for index, effect in _effects(known):
                effects[index] = max(effect, effects.get(index, 0.0))
    return sorted(effects, key=lambda index: effects[index], reverse=True)[:EXTREME]


def _effects(known: Sequence[tuple[int, float]]) -> Iterator[tuple[int, float]]:
    """Yield of the least and the greatest value by what share the average would change without it."""
    if len(known) < _LEAST:
        return
    mean = sum(value for _, value in known) / len(known)
    for index, value in (min(known, key=_value), max(known, key=_value)):
        yield index, abs(value - mean) / max(_TINY, abs(mean))


def _value(known: tuple[int, float]) -> float:
    return known[1]


def _values(samples: Sequence[MetricSample], vertex_id: VertexId, metric: ScalingMetric) -> Iterator[tuple[int, float]]:
    for index, sample in enumerate(samples):
        yield index, sample.vertices.get(vertex_id, {}).get(metric, math.nan)
