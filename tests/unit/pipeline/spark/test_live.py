from __future__ import annotations

from collections.abc import Iterator

import pytest

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.pipeline.spark.live import REMEMBERED, AutoEngine, SparkEngine
from flink_autoscaler.pipeline.spark.session import PassSession
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.spark.supply import SparkLostError
from testkit.builders.pipeline import Fleet

FEW, MANY = "auto: fewer than 10 jobs", "Spark is away: Spark could not be started: not today"


class Setup:
    """An engine that chooses between inline and a Spark that does not start, so that its choice can be seen."""

    def __init__(self, fleet: Fleet) -> None:
        self.now = 0.0
        self.fleet = fleet
        self.spark = SparkEngine(SparkSettings(), fleet.inline, job_deadline=2.0, opener=self._open)
        self.engine = AutoEngine(self.spark, fleet.inline, min_jobs=10, clock=lambda: self.now)

    def _open(self, settings: SparkSettings) -> PassSession:
        raise SparkLostError("not today")

    def jobs(self, cluster: str, count: int) -> list[PassRequest]:
        return [self.fleet.add(f"{cluster} {number}", cluster=cluster) for number in range(count)]

    def reasons(self, requests: list[PassRequest]) -> set[str]:
        return {"" if outcome.engine is None else outcome.engine.reason for outcome in self.engine.evaluate(requests)}


@pytest.fixture
def setup() -> Iterator[Setup]:
    with Fleet.serving() as fleet:
        setup = Setup(fleet)
        yield setup
        setup.spark.close()


def test_jobs_of_all_clusters_count(setup: Setup) -> None:
    first, second = setup.jobs("a", 6), setup.jobs("b", 4)

    assert [setup.reasons(first), setup.reasons(second), setup.reasons(first)] == [{FEW}, {MANY}, {MANY}]


def test_spark_is_kept_until_clearly_fewer_jobs_are_left(setup: Setup) -> None:
    jobs = setup.jobs("a", 10)

    assert [setup.reasons(jobs[:n]) for n in (10, 9, 8, 7, 9)] == [{MANY}, {MANY}, {MANY}, {FEW}, {FEW}]


def test_clusters_that_are_gone_count_no_more(setup: Setup) -> None:
    setup.reasons(setup.jobs("a", 9))
    setup.now += REMEMBERED

    assert setup.reasons(setup.jobs("b", 9)) == {FEW}


def test_jobs_without_anything_to_read_do_not_count(setup: Setup) -> None:
    disabled = [setup.fleet.add(f"disabled {number}", configuration={}) for number in range(20)]

    outcomes = setup.engine.evaluate(disabled)

    assert {outcome.phase for outcome in outcomes} == {PassPhase.DISABLED}
    assert {outcome.engine for outcome in outcomes} == {None}
