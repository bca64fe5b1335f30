"""Policies that choose among the sizes that alignment comes to, through the daemon's own parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.stores import HeapStateStore
from testkit.builders.cluster_passes import passes_over
from testkit.builders.core import RecordingEvents
from testkit.fakes.flink import FakeFlink, chain

STEP_MS = 10_000
OPTIONS = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.policy": "picky",
    "autoscaler.engine.kind": "inline",
    "autoscaler.standalone.control-loop.interval": "10 s",
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
    needs_no_window = True

    def propose(self, given):
        *_, last = given.obs.vertices.values()
        targets = {last.vertex_id: int(given.config["picky.target"])}
        reasons = (Reason("PICKY", str(None if last.aligned is None else list(last.aligned))),)
        return Proposal(self.name, targets, direction_of(given.obs, targets), {}, 1.0, reasons)
'''


@pytest.fixture(autouse=True)
def _plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the policy, which is known by its entry point alone."""
    metadata = tmp_path / "fa_picky_policy-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fa-picky-policy\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[flink_autoscaler.policies]\npicky = fa_picky_policy:Picky\n")
    (tmp_path / "fa_picky_policy.py").write_text(POLICY)
    monkeypatch.syspath_prepend(str(tmp_path))
    installed_plugins.cache_clear()
    yield
    installed_plugins.cache_clear()


def asked_for(target: int, **options: str) -> tuple[int | None, str]:
    """Return what a vertex of parallelism 2 with 128 key groups is to have, and what alignment is said to come to."""
    with ExitStack() as parts:
        flink = parts.enter_context(FakeFlink())
        flink.configuration["picky.target"] = str(target)
        job = flink.add_job("orders", chain(sources=1, vertices=2, parallelism=2), start_ms=1, running_at_ms=1)
        store, now = HeapStateStore(), [0]
        given = {f"job.autoscaler.{key}": text for key, text in options.items()}
        passes = passes_over(
            flink, {**OPTIONS, **given}, parts, store=store, told=RecordingEvents(), now_ms=lambda: now[0]
        )
        for number in (1, 2):
            now[0] = STEP_MS * number
            for vertex in job.vertices:
                vertex.records_in = vertex.records_out = 1000 * number
                vertex.busy_ms = 5_000.0 * number
            report = passes.run()
            assert report.error is None
        (outcome,) = [each.outcome for each in report.reports.values()]
        (told,) = [reason.text for reason in outcome.decision.reasons if reason.code == "PICKY"]
        wanted = store.load("main/orders").overrides.get(job.vertices[-1].vertex_id)
        return wanted, told.removeprefix("picky: ")


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
