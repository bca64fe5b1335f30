"""The contract of policies finds what it is there to find."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import count

import pytest

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import PolicyInput, Proposal, VertexObs
from flink_autoscaler.core.policies.base.proposals import direction_of
from flink_autoscaler.core.policies.testing.contract import ScalingPolicyContract
from flink_autoscaler.core.policies.testing.model_job import balanced_jobs, model_jobs
from flink_autoscaler.core.ports.plugins import ScalingPolicy


class OwnPolicy:
    """A policy made of what it does with a vertex; it never abstains."""

    name = "own"

    def __init__(self, target: Callable[[VertexObs], int], capacity: float = 1.0) -> None:
        self._target = target
        self._capacity = capacity

    def propose(self, given: PolicyInput) -> Proposal:
        targets = {v: self._target(vertex) for v, vertex in given.obs.vertices.items()}
        return Proposal(
            policy=self.name,
            targets=targets,
            direction=direction_of(given.obs, targets),
            capacity=dict.fromkeys(targets, self._capacity),
            confidence=1.0,
            reasons=(Reason("OWN", "as it likes"),),
            state={"seen": len(given.state)},
        )


def clamped(vertex: VertexObs, target: int) -> int:
    return min(max(target, vertex.min_parallelism), vertex.max_parallelism)


calls = count()
BROKEN: Mapping[str, ScalingPolicy] = {
    "test_the_same_input_gives_the_same_proposal": OwnPolicy(lambda vertex: next(calls)),
    "test_targets_are_within_the_bounds": OwnPolicy(lambda vertex: 1_000),
    "test_a_job_that_does_not_run_makes_it_abstain": OwnPolicy(lambda vertex: vertex.parallelism),
    "test_an_incomplete_window_makes_it_abstain": OwnPolicy(lambda vertex: vertex.parallelism),
    "test_a_source_without_what_it_needs_makes_it_abstain": OwnPolicy(lambda vertex: vertex.parallelism),
    "test_what_is_missing_lowers_nothing": OwnPolicy(
        lambda vertex: clamped(vertex, math.ceil((vertex.rate_in or 0.0) / 10))
    ),
    "test_nothing_infinite_or_undefined_leaves_it": OwnPolicy(lambda vertex: vertex.parallelism, math.inf),
    "test_it_becomes_content_with_what_it_proposed": OwnPolicy(
        lambda vertex: clamped(vertex, vertex.parallelism + (1 if vertex.parallelism % 2 else -1))
    ),
    "test_it_scales_up_and_down": OwnPolicy(lambda vertex: vertex.parallelism),
    "test_more_load_lowers_no_target_of_a_balanced_job": OwnPolicy(
        lambda vertex: clamped(vertex, 100 - math.ceil(100 * (vertex.busy or 0.0)))
    ),
    "test_more_load_lowers_no_target_where_both_loads_ask_for_a_change": OwnPolicy(
        lambda vertex: clamped(vertex, 100 - math.ceil(100 * (vertex.busy or 0.0)))
    ),
}


class _Contract(ScalingPolicyContract):
    def __init__(self, policy: ScalingPolicy) -> None:
        self._policy = policy
        self.setup_method()

    def make_policy(self) -> ScalingPolicy:
        return self._policy


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_policy_fails(name: str) -> None:
    test = getattr(_Contract(BROKEN[name]), name)

    with pytest.raises(AssertionError):
        test()


def test_balanced_jobs_are_equally_busy() -> None:
    for job in balanced_jobs(20):
        busy = [vertex.busy for vertex in job.observed(job.parallelism, 0.0).vertices.values()]
        assert busy == pytest.approx([busy[0]] * len(busy))


def test_a_job_falls_behind_where_a_vertex_is_always_busy() -> None:
    for job in model_jobs(30):
        vertices = job.observed(job.parallelism, 0.0).vertices.values()
        is_behind = any((vertex.lag_records or 0.0) > 0 for vertex in vertices)

        assert is_behind is (max(vertex.busy or 0.0 for vertex in vertices) > 1 - 1e-9)
