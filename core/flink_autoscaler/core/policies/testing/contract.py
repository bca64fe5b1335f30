"""The tests that every scaling policy has to pass.

Subclass the class in a test module and say how an instance is made::

    class TestVargaPolicy(ScalingPolicyContract):
        def make_policy(self) -> ScalingPolicy:
            return VargaPolicy()

The cases are made by a generator with fixed seeds, so that a failure can be repeated: the message names the case.
"""

# ruff: noqa: S101, D102 - these are tests: they assert, and their names are their documentation

from __future__ import annotations

import copy
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Set
from itertools import islice
from typing import Any, ClassVar

from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import (
    DemandForecast,
    JobObservation,
    Outage,
    PastRescale,
    PolicyInput,
    Proposal,
    ProposalDirection,
)
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.policies.base.proposals import INCOMPLETE_WINDOW, METRIC_MISSING, NOT_RUNNING, direction_of
from flink_autoscaler.core.policies.testing.model_job import Meter, ModelJob, balanced_jobs, model_jobs
from flink_autoscaler.core.ports.plugins import ScalingPolicy

START = 1_700_000_000.0
_CASES = 30
_FIELDS = ("rate_in", "target_rate", "true_rate", "busy", "busy_mean", "idle", "backpressured")
_EXTREMES = (0.0, 1e-300, 1e-9, 1e18, 1e300)


class ScalingPolicyContract(ABC):
    """What every :class:`ScalingPolicy` does.

    Attributes:
        interval: Seconds between two passes.
        patience: Passes over the same load within which it has made up its mind.
        most_rescales: Rescales within which it is content with any of the jobs.
        expected: Directions that some of the jobs are sent in.
        needs: Fields of a source without which it abstains; empty for a policy that needs no metrics at all.
    """

    interval: ClassVar[float] = 60.0
    patience: ClassVar[int] = 8
    most_rescales: ClassVar[int] = 10
    expected: ClassVar[Set[ProposalDirection]] = frozenset({ProposalDirection.UP, ProposalDirection.DOWN})
    needs: ClassVar[tuple[str, ...]] = ("target_rate",)

    def setup_method(self) -> None:
        """Begin with counters at which nothing has been read yet."""
        self._meter = Meter()

    @abstractmethod
    def make_policy(self) -> ScalingPolicy:
        """Make a policy."""

    def config(self) -> Mapping[str, str]:
        """Return the options of the job, by full key."""
        return {}

    def demand(self, obs: JobObservation) -> DemandForecast | None:  # noqa: ARG002 - for those who override it
        """Return the forecast that goes with an observation."""
        return None

    def test_the_same_input_gives_the_same_proposal(self) -> None:
        for case, given, proposal in self._proposals():
            again = self.make_policy().propose(copy.deepcopy(given))

            assert again == proposal, case

    def test_the_input_stays_as_it_is(self) -> None:
        for case, given, _ in self._proposals():
            before = copy.deepcopy(given)

            self.make_policy().propose(given)

            assert given == before, case

    def test_the_state_survives_being_written_as_json(self) -> None:
        for case, _, proposal in self._proposals():
            assert json.loads(json.dumps(dict(proposal.state), allow_nan=False)) == proposal.state, case

    def test_targets_are_within_the_bounds(self) -> None:
        for case, given, proposal in self._proposals():
            for vertex_id, target in (proposal.targets or {}).items():
                vertex = given.obs.vertices[vertex_id]
                assert isinstance(target, int), case
                assert vertex.min_parallelism <= target <= vertex.max_parallelism, case

    def test_the_direction_says_what_the_targets_do(self) -> None:
        for case, given, proposal in self._proposals():
            assert proposal.direction is direction_of(given.obs, proposal.targets or {}), case

    def test_every_proposal_has_a_name_and_reasons(self) -> None:
        for case, given, proposal in self._proposals():
            assert proposal.policy == self.make_policy().name, case
            assert proposal.reasons, case
            assert {reason.vertex_id for reason in proposal.reasons} <= {None, *given.obs.vertices}, case

    def test_a_job_that_does_not_run_makes_it_abstain(self) -> None:
        for case, given, _ in self._proposals():
            down = replace(given.obs, status=JobStatus.RESTARTING, all_tasks_running=False)
            partly = replace(given.obs, all_tasks_running=False)
            empty = replace(given.obs, vertices={}, edges={}, slot_groups={})

            for obs in (down, partly, empty):
                self._assert_abstains(replace(given, obs=obs), NOT_RUNNING, case)

    def test_an_incomplete_window_makes_it_abstain(self) -> None:
        if not self.needs:
            return
        for case, given, _ in self._proposals():
            self._assert_abstains(_with(given, is_source=None, complete=False), INCOMPLETE_WINDOW, case)

    def test_a_source_without_what_it_needs_makes_it_abstain(self) -> None:
        for case, given, _ in self._proposals():
            for name in self.needs:
                self._assert_abstains(_with(given, is_source=True, **{name: None}), METRIC_MISSING, case)

    def test_what_is_missing_lowers_nothing(self) -> None:
        for number, job in enumerate(model_jobs(_CASES)):
            vector = job.parallelism
            whole = self._decided(job, vector)
            for name in _FIELDS:
                lacking = self._decided(job, vector, **{name: None})
                _assert_not_lowered(lacking, whole, vector, f"case {number} without {name}")

    def test_nothing_infinite_or_undefined_leaves_it(self) -> None:
        for turn, (case, given, proposal) in enumerate(self._proposals()):
            _assert_finite(proposal, case)
            for number, name in enumerate((*_FIELDS, "lag_records", "lag_slope")):
                extreme = _EXTREMES[(number + turn) % len(_EXTREMES)]
                odd = _with(given, is_source=None, **{name: extreme})
                _assert_finite(self.make_policy().propose(odd), f"{case}, {name} {extreme}")

    def test_it_becomes_content_with_what_it_proposed(self) -> None:
        for number, job in enumerate(model_jobs(_CASES)):
            rescales = sum(1 for _ in islice(self._rescales(job), self.most_rescales + 1))

            assert rescales <= self.most_rescales, f"case {number} is rescaled again and again"

    def test_more_load_lowers_no_target_of_a_balanced_job(self) -> None:
        for number, job in enumerate(balanced_jobs(_CASES)):
            targets = dict(job.parallelism)
            for factor in (0.3, 0.6, 0.9, 1.0, 1.1, 1.5, 3.0):
                higher = self._decided(job.under(factor), job.parallelism).targets or {}
                assert all(higher[v] >= targets[v] for v in higher if factor > 0.3), f"case {number} x {factor}"  # noqa: PLR2004
                targets |= higher

    def test_it_scales_up_and_down(self) -> None:
        """The other tests say little about a policy that never does anything with these jobs."""
        directions = {self._decided(job, job.parallelism).direction for job in model_jobs(_CASES)}

        assert self.expected <= directions

    def test_more_load_lowers_no_target_where_both_loads_ask_for_a_change(self) -> None:
        for number, job in enumerate(model_jobs(_CASES)):
            lower = self._decided(job, job.parallelism)
            higher = self._decided(job.under(1.3), job.parallelism)
            if ProposalDirection.NONE not in (lower.direction, higher.direction):
                pairs = [(higher.targets or {})[v] >= least for v, least in (lower.targets or {}).items()]
                assert all(pairs), f"case {number}"

    def _rescales(self, job: ModelJob) -> Iterator[Proposal]:
        """Yield every proposal of a change; it is carried out at once. Ends when nothing is proposed any more."""
        vector, state = job.parallelism, dict[str, Any]()
        now, rescaled_at, quiet = START, None, 0
        while quiet < self.patience:
            obs = job.observed(vector, now, last_rescale_at=rescaled_at)
            proposal = self.make_policy().propose(self._given(obs, state))
            now, state, quiet = now + self.interval, dict(proposal.state), quiet + 1
            if proposal.direction is not ProposalDirection.NONE:
                yield proposal
                vector, rescaled_at, quiet = {**vector, **(proposal.targets or {})}, now, 0

    def _given(self, obs: JobObservation, state: Mapping[str, Any]) -> PolicyInput:
        history = (
            (PastRescale(obs.last_rescale_at, {}, {v: each.parallelism for v, each in obs.vertices.items()}, 60.0),)
            if obs.last_rescale_at is not None
            else ()
        )
        downtime = Outage(30.0, 60.0, 5.0, 10.0)
        samples = (self._meter.sample(obs),)
        return PolicyInput(obs, history, self.demand(obs), downtime, self.config(), state, samples)

    def _proposals(self) -> Iterator[tuple[str, PolicyInput, Proposal]]:
        """Yield every pass of a few over every job: its inputs and what came of it."""
        for number, job in enumerate(model_jobs(_CASES)):
            state: Mapping[str, Any] = {}
            for turn in range(self.patience):
                given = self._given(job.observed(job.parallelism, START + turn * self.interval), state)
                proposal = self.make_policy().propose(given)
                yield f"case {number}, pass {turn}", given, proposal
                state = proposal.state

    def _decided(self, job: ModelJob, vector: Mapping[VertexId, int], **changes: Any) -> Proposal:
        """Return what it proposes once it had time to make up its mind."""
        state: Mapping[str, Any] = {}
        for turn in range(self.patience):
            obs = _changed(job.observed(vector, START + turn * self.interval), is_source=None, **changes)
            given = self._given(obs, state)
            proposal = self.make_policy().propose(given)
            state = proposal.state
        return proposal

    def _assert_abstains(self, given: PolicyInput, code: str, case: str) -> None:
        proposal = self.make_policy().propose(given)

        assert proposal.targets is None, case
        assert proposal.direction is ProposalDirection.NONE, case
        assert code in {reason.code for reason in proposal.reasons}, case


def _with(given: PolicyInput, *, is_source: bool | None, **changes: Any) -> PolicyInput:
    """Change the vertices of the observation, or only those that are a source or are not, and of a first sample."""
    obs = _changed(given.obs, is_source=is_source, **changes)
    return replace(given, obs=obs, samples=(Meter().sample(obs),))


def _changed(obs: JobObservation, *, is_source: bool | None, **changes: Any) -> JobObservation:
    vertices = {
        vertex_id: replace(vertex, **changes) if is_source in (None, vertex.is_source) else vertex
        for vertex_id, vertex in obs.vertices.items()
    }
    return replace(obs, vertices=vertices)


def _assert_not_lowered(lacking: Proposal, whole: Proposal, vector: Mapping[VertexId, int], case: str) -> None:
    whole_targets = {**vector, **(whole.targets or {})}
    for vertex_id, target in (lacking.targets or {}).items():
        assert target >= min(vector[vertex_id], whole_targets[vertex_id]), case


def _assert_finite(proposal: Proposal, case: str) -> None:
    figures = [figure for reason in proposal.reasons for _, figure in reason.figures]
    assert all(map(math.isfinite, [*proposal.capacity.values(), *figures])), case
    assert 0.0 <= proposal.confidence <= 1.0, case
    json.dumps(dict(proposal.state), allow_nan=False)
