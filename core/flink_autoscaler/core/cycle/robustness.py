"""The second look at a plan: a rescale that rests on one sample of the metric window waits for the next pass.

One wrong answer stays in the window for as long as the window is. Where the pass would decide something else without
it, it alone would rescale the job; so would an exceptional moment that is over before the job is back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from flink_autoscaler.core.decide.decision import make_plan
from flink_autoscaler.core.decide.plan import Plan, plan_event
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.events import EventType, Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric, VertexId
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.observe.window import MetricWindow
from flink_autoscaler.core.ports.passes import EvaluatedJob
from flink_autoscaler.core.ports.plugins import Plugins

CODE: Final = ReasonCode.SAMPLE_DOUBTED
EVENT: Final = "SampleDoubted"

OUTLIERS: Final = 3
"""Samples farthest from an average, each of which a plan has to do without: one alone may be the noise of a vertex."""

LARGER: Final = 1.5
"""Greatest factor between the sizes with and without a sample: a subtask more or less rests on every sample."""

_AVERAGED: Final = (ScalingMetric.LOAD, ScalingMetric.NUM_RECORDS_IN_PER_SECOND, ScalingMetric.OBSERVED_TPR)
_LEAST: Final = 2
_TINY: Final = 1e-9
_UNDECIDABLE: Final = (AutoscalerError, ArithmeticError, ValueError, TypeError, LookupError)

Sizes = Mapping[VertexId, int]


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """Two plans for a vertex: its parallelism now, what the plan gives it, and what the other one does."""

    vertex_id: VertexId
    present: int
    planned: int
    otherwise: int

    @property
    def direction(self) -> int:
        """Above 0 where both change the vertex in one direction, below where in opposite ones, else 0."""
        return (self.planned - self.present) * (self.otherwise - self.present)

    @property
    def contrast(self) -> float:
        """The factor between the two sizes; infinite where one is above what the vertex has and the other below."""
        if self.direction < 0:
            return math.inf
        return max(self.planned, self.otherwise) / max(1, min(self.planned, self.otherwise))


def leave_one_out_check(
    plan: Plan,
    job: EvaluatedJob,
    samples: Sequence[MetricSample],
    without: Callable[[int], EvaluatedJob],
    plugins: Plugins,
) -> Plan:
    """Return a plan, or nothing of it where it rests on one sample; of two samples none can be left out.

    Args:
        plan: That would be carried out.
        job: As it was evaluated with all samples.
        samples: All of them, oldest first.
        without: Evaluates the pass without the sample of a number.
        plugins: Of the pass.
    """
    present = {vertex_id: vertex.parallelism for vertex_id, vertex in job.topology.vertices.items()}
    wanted = {vertex_id: change.new for vertex_id, change in plan.changes.items()}
    for index in suspect_samples(samples) if len(samples) > _LEAST else ():
        found = largest_difference(wanted, _plan_without(without, index, plugins), present)
        if found is not None:
            return _without_doubtful_changes(plan, found, job, age=(samples[-1].at_ms - samples[index].at_ms) / 1000)
    return plan


def suspect_samples(samples: Sequence[MetricSample]) -> list[int]:
    """Return the numbers of the samples that a plan may rest on, the newest first.

    Those are both ends of the window, and of what is known of a vertex, from which rates are taken, and the outliers,
    which move averages most.
    """
    distances = dict.fromkeys(range(len(samples)), 0.0)
    ends = {0, len(samples) - 1}
    window = MetricWindow(samples)
    for vertex_id in samples[-1].vertices:
        for metric in _AVERAGED:
            known = {i: value for i, value in enumerate(window.values(metric, vertex_id)) if math.isfinite(value)}
            ends |= {min(known), max(known)} if known else set()
            mean = sum(known.values()) / max(1, len(known))
            for index, value in known.items():
                distances[index] = max(distances[index], abs(value - mean) / max(_TINY, abs(mean)))
    outliers = nlargest(OUTLIERS, distances, key=distances.__getitem__)
    return sorted({*ends, *outliers}, reverse=True)


def largest_difference(planned: Sizes, other: Sizes, present: Sizes) -> PlanDifference | None:
    """Return where two plans differ most; None where both change the same in one direction, by about as much.

    Args:
        planned: New parallelism of the vertices that a plan changes; not empty.
        other: The same of another plan, which may be empty.
        present: Parallelism of all vertices.
    """
    changed = planned.keys() | other.keys()
    all_of_them = [
        PlanDifference(v, now, planned.get(v, now), other.get(v, now)) for v, now in present.items() if v in changed
    ]
    worst = max(all_of_them, key=lambda each: each.contrast, default=None)
    is_agreed = any(each.direction > 0 for each in all_of_them)
    return None if worst is None or (is_agreed and worst.contrast <= LARGER) else worst


def _plan_without(without: Callable[[int], EvaluatedJob], index: int, plugins: Plugins) -> Sizes:
    """Return what the pass would decide without a sample: nothing where too little is left to decide by."""
    try:
        plan = make_plan(without(index), plugins)
    except _UNDECIDABLE:
        return {}
    return {} if plan.blocked_by else {v: change.new for v, change in plan.changes.items()}


def _without_doubtful_changes(plan: Plan, found: PlanDifference, job: EvaluatedJob, *, age: float) -> Plan:
    without = "without the newest metric sample" if age <= 0 else f"without the metric sample of {age:.0f} s ago"
    otherwise = f"stay at {found.present}" if found.otherwise == found.present else f"go to {found.otherwise}"
    figures = (
        ("present", float(found.present)),
        ("planned", float(found.planned)),
        ("without_sample", float(found.otherwise)),
        ("sample_age", age),
    )
    name = job.topology.vertices[found.vertex_id].name
    reason = Reason.of(CODE, found.vertex_id, figures, otherwise=otherwise, without=without)
    event = plan_event(job.context, EVENT, f"Scaling is held back: {name} {reason.text}", EVENT, EventType.NORMAL)
    return plan.with_reason(reason).with_event(replace(event, figures=figures)).without_changes()
