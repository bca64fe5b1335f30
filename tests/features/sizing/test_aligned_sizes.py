"""Policies that choose among the sizes that alignment comes to, through the daemon's own parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testkit.builders.cluster_passes import SteppedPasses, installed_plugin
from testkit.fakes.flink import FakeFlink

OPTIONS = {
    "job.autoscaler.policy": "picky",
    "autoscaler.clusters.0.slots": "elastic",
    # As far as even shares are.
    "job.autoscaler.scaling.parallelism-alignment.max-increase": "1",
}
POLICY = '''
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import Proposal
from flink_autoscaler.core.policies.base.proposals import direction_of


class Picky:
    """Wants of the last vertex what its option says, and tells what alignment comes to."""

    name = "picky"
    is_streaming = True

    def propose(self, given):
        *_, last = given.obs.vertices.values()
        targets = {last.vertex_id: int(given.config["picky.target"])}
        reasons = (Reason("PICKY", str(None if last.aligned is None else list(last.aligned))),)
        return Proposal(self.name, targets, direction_of(given.obs, targets), {}, 1.0, reasons)
'''


@pytest.fixture(autouse=True)
def _plugin(tmp_path: Path) -> Iterator[None]:
    entry_points = "[flink_autoscaler.policies]\npicky = fa_picky_policy:Picky\n"
    with installed_plugin(tmp_path, "fa_picky_policy", entry_points, POLICY):
        yield


def asked_for(target: int, **options: str) -> tuple[int | None, str]:
    """Return what a vertex of parallelism 2 with 128 key groups is to have, and what alignment is said to come to."""
    with ExitStack() as parts:
        flink = parts.enter_context(FakeFlink())
        flink.configuration["picky.target"] = str(target)
        given = {f"job.autoscaler.{key}": text for key, text in options.items()}
        passes = SteppedPasses(flink, {**OPTIONS, **given}, parts)
        job = passes.add()
        (outcome,) = [each.outcome for each in passes.run(2)[-1].reports.values()]
        (told,) = [reason.text for reason in outcome.decision.reasons if reason.code == "PICKY"]
        return passes.state().overrides.get(job.vertices[-1].vertex_id), told.removeprefix("picky: ")


BALANCED = "[1, 2, 4, 6, 7, 8, 10, 11, 12, 13, 15, 16, 19, 22, 26, 32, 43, 64, 128]"
DIVISORS = "[1, 2, 4, 8, 16, 32, 64, 128]"


@pytest.mark.parametrize(
    ("options", "target", "wanted", "told"),
    [
        pytest.param({}, 19, 19, BALANCED, id="balanced, one that it comes to stays although it is uneven"),
        pytest.param({}, 17, 19, BALANCED, id="balanced, any other is aligned"),
        pytest.param(
            {"scaling.parallelism-alignment.mode": "EVENLY_SPREAD"}, 19, 32, DIVISORS, id="evenly spread, aligned"
        ),
        pytest.param(
            {"scaling.parallelism-alignment.mode": "EVENLY_SPREAD"}, 32, 32, DIVISORS, id="evenly spread, a divisor"
        ),
        pytest.param({"scaling.parallelism-alignment.mode": "OFF"}, 19, 19, "None", id="off"),
        pytest.param(
            {"scaling.parallelism-alignment.max-increase": "0.33", "vertex.max-parallelism": "48"},
            44,
            44,
            "[1, 2, 4, 6, 7, 8, 10, 11, 12, 13, 15, 16, 19, 22, 26, 32, 43, 44, 45, 46, 47, 48]",
            id="balanced, too far",
        ),
    ],
)
def test_a_policy_gets_the_size_that_it_took_for_one(
    options: dict[str, str], target: int, wanted: int, told: str
) -> None:
    assert asked_for(target, **options) == (wanted, told)
