"""A policy that needs no metric window, in charge and in shadow mode, through the daemon's own parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testkit.builders.cluster_passes import SteppedPasses, installed_plugin
from testkit.fakes.flink import FakeFlink

OPTIONS = {
    "job.autoscaler.metrics.window": "10 min",
    "job.autoscaler.stabilization.interval": "5 min",
}
POLICY = '''
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import Proposal
from flink_autoscaler.core.policies.base.proposals import direction_of


class Eager:
    """Wants four subtasks everywhere once something has arrived, and remembers what it saw."""

    name = "eager"
    needs_no_window = True

    def propose(self, given):
        before, now = given.samples[-2:]
        arrived = sum(
            sample.records_in - before.vertices[v].records_in
            for v, sample in now.vertices.items()
            if given.obs.vertices[v].is_source
        )
        targets = {v: 4 if arrived else each.parallelism for v, each in given.obs.vertices.items()}
        state = {"arrived": given.state.get("arrived", 0) + arrived}
        reasons = (Reason("EAGER", f"{arrived:g} records"),)
        return Proposal(self.name, targets, direction_of(given.obs, targets), {}, 1.0, reasons, state=state)
'''


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[str]:
    entry_points = "[flink_autoscaler.policies]\neager = fa_eager_policy:Eager\n"
    with installed_plugin(tmp_path, "fa_eager_policy", entry_points, POLICY):
        yield "eager"


@pytest.fixture
def make(flink: FakeFlink) -> Iterator[Callable[..., SteppedPasses]]:
    """Give what begins passes over one job with options of its policies."""
    with ExitStack() as parts:

        def begin(**options: str) -> SteppedPasses:
            policies = {f"job.autoscaler.{key.replace('_', '.')}": text for key, text in options.items()}
            passes = SteppedPasses(flink, {**OPTIONS, **policies}, parts)
            passes.add()
            return passes

        yield begin


def test_in_charge_it_rescales_with_the_second_sample(make: Callable[..., SteppedPasses], plugin: str) -> None:
    bench = make(policy=plugin)
    bench.run(1)
    before = bench.rescales

    bench.run(1)

    assert before == 0
    assert bench.rescales == 1
    assert set(bench.state().overrides.values()) == {4}
    assert bench.state().policies == {"eager": {"arrived": 2000.0}}


def test_what_it_remembers_goes_on_while_its_rescale_is_followed(
    make: Callable[..., SteppedPasses], plugin: str
) -> None:
    bench = make(policy=plugin)

    bench.run(4)

    assert bench.state().supervision.under_way is not None
    assert bench.state().policies == {"eager": {"arrived": 3 * 2000.0}}


def test_in_shadow_mode_it_changes_nothing(make: Callable[..., SteppedPasses], plugin: str) -> None:
    bench = make(policy_shadow=plugin)

    bench.run(4)

    assert bench.rescales == 0
    assert bench.state().overrides == {}
    assert bench.state().policies == {"policies.shadow": {"policy": "eager", "state": {"arrived": 3 * 2000.0}}}


def test_a_policy_in_shadow_mode_that_is_not_installed_harms_nothing(
    flink: FakeFlink, make: Callable[..., SteppedPasses]
) -> None:
    bench = make()
    (job,) = flink.jobs.values()
    job.configuration["job.autoscaler.policy.shadow"] = "eager"  # only the job itself can name what is not there

    bench.run(3)

    assert len(bench.state().samples) == 3
    assert bench.state().policies == {}
