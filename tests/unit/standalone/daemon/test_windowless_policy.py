"""A policy that needs no metric window, in charge and in shadow mode, through the daemon's own parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.model.events import Event, ScalingReport
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.stores import HeapStateStore
from testkit.builders.cluster_passes import passes_over
from testkit.fakes.flink import FakeFlink, chain

STEP_MS = 10_000
KEY = "main/orders"
OPTIONS = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.metrics.window": "10 min",
    "job.autoscaler.stabilization.interval": "5 min",
    "autoscaler.engine.kind": "inline",
    "autoscaler.standalone.control-loop.interval": "10 s",
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
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Install the policy, which is known by its entry point alone."""
    metadata = tmp_path / "fa_eager_policy-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fa-eager-policy\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[flink_autoscaler.policies]\neager = fa_eager_policy:Eager\n")
    (tmp_path / "fa_eager_policy.py").write_text(POLICY)
    monkeypatch.syspath_prepend(str(tmp_path))
    installed_plugins.cache_clear()
    yield "eager"
    installed_plugins.cache_clear()


class Told:
    """Keeps what is told."""

    def __init__(self) -> None:
        self.told: list[Event | ScalingReport] = []

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        self.told.append(event)

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        self.told.append(report)

    def close(self) -> None:
        self.told.clear()


class Bench:
    """Passes of the daemon, ten seconds apart, over a job of a source and a vertex that reads 200 records/s."""

    def __init__(self, flink: FakeFlink, parts: ExitStack, **options: str) -> None:
        self.flink, self.number, self.store = flink, 0, HeapStateStore()
        self.job = flink.add_job("orders", chain(sources=1, vertices=2, parallelism=2), start_ms=1, running_at_ms=1)
        policies = {f"job.autoscaler.{key.replace('_', '.')}": text for key, text in options.items()}
        self._passes = passes_over(
            flink,
            {**OPTIONS, **policies},
            parts,
            store=self.store,
            told=Told(),
            now_ms=lambda: STEP_MS * self.number,
        )

    def run(self, count: int) -> None:
        """Do passes."""
        for _ in range(count):
            self.number += 1
            source, work = self.job.vertices
            counter = 2000 * self.number
            for name in ("Source__source_0.numRecordsIn", "Source__source_0.numRecordsOut"):
                source.metrics[name] = counter / 2
            source.metrics["Source__source_0.pendingRecords"] = 0.0
            source.records_out = work.records_in = counter
            source.busy_ms = work.busy_ms = 10_000.0 * self.number
            for vertex in self.job.vertices:
                vertex.metrics["busyTimeMsPerSecond"] = 500.0
            work.metrics["numRecordsInPerSecond"] = 100.0
            assert self._passes.run().error is None

    @property
    def rescales(self) -> int:
        return sum(request.method == "PUT" for request in self.flink.requests)

    @property
    def state(self) -> JobState:
        return self.store.load(KEY)


@pytest.fixture
def parts() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_in_charge_it_rescales_with_the_second_sample(flink: FakeFlink, parts: ExitStack, plugin: str) -> None:
    bench = Bench(flink, parts, policy=plugin)
    bench.run(1)
    before = bench.rescales

    bench.run(1)

    assert before == 0
    assert bench.rescales == 1
    assert set(bench.state.overrides.values()) == {4}
    assert bench.state.policies == {"eager": {"arrived": 2000.0}}


def test_what_it_remembers_goes_on_while_its_rescale_is_followed(
    flink: FakeFlink, parts: ExitStack, plugin: str
) -> None:
    bench = Bench(flink, parts, policy=plugin)

    bench.run(4)

    assert bench.state.supervision.under_way is not None
    assert bench.state.policies == {"eager": {"arrived": 3 * 2000.0}}


def test_in_shadow_mode_it_changes_nothing(flink: FakeFlink, parts: ExitStack, plugin: str) -> None:
    bench = Bench(flink, parts, policy_shadow=plugin)

    bench.run(4)

    assert bench.rescales == 0
    assert bench.state.overrides == {}
    assert bench.state.policies == {"policies.shadow": {"policy": "eager", "state": {"arrived": 3 * 2000.0}}}


def test_a_policy_in_shadow_mode_that_is_not_installed_harms_nothing(flink: FakeFlink, parts: ExitStack) -> None:
    bench = Bench(flink, parts)
    bench.job.configuration["job.autoscaler.policy.shadow"] = "eager"  # only the job itself can name what is not there

    bench.run(3)

    assert len(bench.state.samples) == 3
    assert bench.state.policies == {}
