"""Early passes in the simulator, and what they are good for."""

from __future__ import annotations

from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.pipeline.simulator import BacktestResult, JobModel, Simulation, run
from flink_autoscaler.pipeline.simulator.model import VertexModel
from flink_autoscaler.pipeline.simulator.workloads import Workload

PREFIX = "job.autoscaler."


def stepped(**options: str) -> BacktestResult:
    """Simulate three hours in which the load doubles after two, 20 s before a pass."""
    vertices = (
        VertexModel("a" * 32, "source", 100_000.0),
        VertexModel("b" * 32, "work", 100.0, ship=ShipStrategy.REBALANCE),
    )
    rows = tuple((1_000.0 if second < 7_180 else 2_000.0,) for second in range(0, 10_800, 20))
    job, workload = JobModel.chain(vertices), Workload("step", 20.0, rows)
    given = {PREFIX + key.replace("_", "-"): text for key, text in options.items()}
    return run(Simulation(job, workload, {PREFIX + "policy": "slo", **given}))


def test_slo_is_less_late_with_early_passes_and_asks_for_few() -> None:
    with_them, without = stepped(), stepped(**{"improvement.early-passes": "false"})

    assert 1 <= with_them.early_passes <= 12
    assert without.early_passes == 0
    first, later = (
        min(each.instant for each in result.decisions if each.instant > 7_180) for result in (with_them, without)
    )
    assert first < later
    assert with_them.measures.over_slo < without.measures.over_slo


def test_the_reference_has_none() -> None:
    assert stepped(compat="reference").early_passes == 0


def test_an_early_pass_is_recorded_as_a_reason() -> None:
    assert stepped().holds["LOOKS_AGAIN"] >= 1
