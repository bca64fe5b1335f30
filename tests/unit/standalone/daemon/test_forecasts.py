"""Load profiles on their way from the store to the passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.load_profile import LoadProfile, ProfileResult
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.daemon.forecasts import JobForecasts
from flink_autoscaler.stores.heap import HeapForecastStore
from testkit.builders.core import a_context
from testkit.scenarios.runner import LogLines

JOB = a_context({"forecast.enabled": "true"})
WITHOUT = a_context()
MISCONFIGURED = a_context({"forecast.enabled": "perhaps"})


class CountingStore(HeapForecastStore):
    """Counts what is read; fails while ``is_away``."""

    def __init__(self) -> None:
        super().__init__()
        self.loads = 0
        self.looks = 0
        self.is_away = False

    def load(self, job_key: JobKey) -> Mapping[VertexId, ProfileResult]:
        self.loads += 1
        return super().load(job_key)

    def revisions(self) -> Mapping[JobKey, str]:
        self.looks += 1
        if self.is_away:
            raise StoreError("nobody answers")
        return super().revisions()


class Bench:
    def __init__(self) -> None:
        self.now = 0.0
        self.is_ready = True
        self.store = CountingStore()
        self.forecasts = JobForecasts(
            self.store, is_ready=lambda: self.is_ready, interval=300.0, clock=lambda: self.now
        )
        self.build(100.0)

    def build(self, level: float, asof: float = 0.0) -> None:
        profile = LoadProfile((1.0,) * 672, (1.2,) * 672, 5, level=level, growth=1.0, asof=asof)
        self.store.save([ProfileResult(JOB.job_key, "source", asof, profile)])

    def levels(self, *contexts: JobAutoScalerContext) -> list[float]:
        found = self.forecasts.profiles(contexts or [JOB], 0.0)
        results = [result for each in found.values() for result in each.values()]
        return [result.profile.level for result in results if result.profile is not None]


def test_a_job_with_forecasts_has_the_part_of_its_profiles_that_matters() -> None:
    found = Bench().forecasts.profiles([JOB], 0.0)[JOB.job_key]["source"].profile

    assert found is not None
    assert sum(share is not None for share in found.q50) < 110


def test_jobs_without_forecasts_have_none_and_the_store_is_left_alone() -> None:
    bench = Bench()

    assert bench.levels(WITHOUT, MISCONFIGURED) == []
    assert bench.store.looks == 0


def test_profiles_are_read_once_until_there_are_new_ones() -> None:
    bench = Bench()
    before = [bench.levels() for _ in range(3)]
    bench.build(200.0, asof=86_400.0)
    unnoticed = bench.levels()
    bench.now = 300.0

    assert (before, unnoticed) == ([[100.0]] * 3, [100.0])
    assert bench.levels() == [200.0]
    bench.now = 600.0
    assert bench.levels() == [200.0]
    assert (bench.store.looks, bench.store.loads) == (3, 2)


def test_a_profile_that_is_built_again_for_the_same_day_is_noticed() -> None:
    bench = Bench()
    before = bench.levels()
    bench.build(200.0)
    bench.now = 300.0

    assert (before, bench.levels()) == ([100.0], [200.0])


def test_a_profile_that_is_built_again_and_the_same_is_not_read_again() -> None:
    bench = Bench()
    bench.levels()
    bench.build(100.0)
    bench.now = 300.0

    assert bench.levels() == [100.0]
    assert bench.store.loads == 1


def test_a_job_that_comes_to_have_forecasts_is_looked_up_at_once() -> None:
    bench = Bench()
    bench.forecasts.profiles([], 0.0)

    assert bench.levels() == [100.0]


def test_profiles_that_were_deleted_are_not_used_any_more() -> None:
    bench = Bench()
    bench.levels()
    bench.store.forget([JOB.job_key])
    bench.now = 300.0

    assert bench.levels() == []


def test_a_store_that_cannot_be_read_is_told_once_and_jobs_go_on() -> None:
    bench = Bench()
    bench.levels()
    bench.store.is_away = True
    with LogLines() as lines:
        for bench.now in (300.0, 600.0, 900.0):
            assert bench.levels() == [100.0]
        bench.store.is_away = False
        bench.now = 1200.0
        bench.levels()
        bench.store.is_away = True
        bench.now = 1500.0
        bench.levels()

    assert [line["error"] for line in lines.of("profiles_unreadable")] == ["nobody answers"] * 2


def test_profile_that_cannot_be_used_is_told_once_and_the_others_are_used() -> None:
    bench = Bench()
    damaged = ProfileResult(JOB.job_key, "damaged", 0.0, problem="made by another version", is_readable=False)
    bench.store.save([damaged, ProfileResult(JOB.job_key, "new", 0.0, problem="too little history")])

    with LogLines() as lines:
        levels = []
        for bench.now in (0.0, 300.0, 600.0):
            levels.append(bench.levels())

    assert levels == [[100.0]] * 3
    assert [(line["source_id"], line["problem"]) for line in lines.of("profile_unusable")] == [
        ("damaged", "made by another version")
    ]


def test_a_store_that_is_known_to_be_away_is_not_asked() -> None:
    bench = Bench()
    bench.is_ready = False

    assert bench.levels() == []
    assert bench.store.looks == 0
    bench.is_ready = True
    assert bench.levels() == [100.0]


def test_profile_that_cannot_be_used_costs_its_job_alone() -> None:
    bench, other = Bench(), replace(a_context({"forecast.enabled": "true"}), job_key="main/other")
    bench.store.save([ProfileResult(other.job_key, "source", 0.0, 42)])  # type: ignore[arg-type]

    with LogLines() as lines:
        found = [bench.levels(JOB, other) for _ in range(3)]

    assert found == [[100.0]] * 3
    assert [line["job_key"] for line in lines.of("job_profiles_unusable")] == ["main/other"]
