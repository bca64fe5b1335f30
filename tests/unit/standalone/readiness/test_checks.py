from __future__ import annotations

import pytest

from flink_autoscaler.clients.flink.freshness import gathering_interval
from flink_autoscaler.core.model.job import ClusterCapacity
from flink_autoscaler.standalone.readiness.checks import ClusterFacts, lacks_rescale_api

ADAPTIVE = {"jobmanager.scheduler": "adaptive"}
REACTIVE = {"scheduler-mode": "reactive"}


def told(facts: ClusterFacts) -> list[tuple[str, str, str | None]]:
    """Return code, weight and line of every finding."""
    return [(each.code, each.weight, each.line) for each in facts.findings]


def slots(total: int, free: int, *, taskmanagers: int = 1, is_fixed: bool = True) -> ClusterCapacity:
    return ClusterCapacity(taskmanagers, total, free, total, is_fixed=is_fixed)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(ClusterFacts(), [], id="nothing known: nothing claimed"),
        pytest.param(ClusterFacts("2.3.0", ADAPTIVE), [], id="fit"),
        pytest.param(ClusterFacts("1.17.2", ADAPTIVE), [("FLINK_TOO_OLD", "needed", None)], id="before FLIP-291"),
        pytest.param(
            ClusterFacts("1.20.5", {}),
            [("SCHEDULER_NOT_ADAPTIVE", "needed", "jobmanager.scheduler: adaptive")],
            id="default scheduler",
        ),
        pytest.param(
            ClusterFacts("2.3.0", {"jobmanager.scheduler": "Default"}),
            [("SCHEDULER_NOT_ADAPTIVE", "needed", "jobmanager.scheduler: adaptive")],
            id="another scheduler",
        ),
        pytest.param(
            ClusterFacts("2.3.0", REACTIVE),
            [("REACTIVE_MODE", "needed", None)],
            id="reactive mode",
        ),
        pytest.param(ClusterFacts("2.3.0", REACTIVE, has_provider=True), [], id="reactive mode with a provider"),
        pytest.param(
            ClusterFacts("2.3.0", {**ADAPTIVE, "metrics.fetcher.update-interval": "0"}),
            [("METRICS_OFF", "needed", "metrics.fetcher.update-interval: 10000")],
            id="Flink gathers no metrics",
        ),
        pytest.param(
            ClusterFacts("1.20.1", {**ADAPTIVE, "jobmanager.adaptive-scheduler.min-parallelism-increase": "4"}),
            [("MIN_INCREASE", "note", None)],
            id="Flink does no small rescales",
        ),
        pytest.param(
            ClusterFacts("1.20.1", {**ADAPTIVE, "jobmanager.adaptive-scheduler.min-parallelism-increase": "NaN"}),
            [],
            id="a threshold that is no number",
        ),
        pytest.param(
            ClusterFacts(capacity=slots(0, 0, taskmanagers=0)),
            [("NO_TASKMANAGERS", "needed", None)],
            id="no TaskManager",
        ),
        pytest.param(
            ClusterFacts(capacity=slots(4, 0)),
            [("NO_FREE_SLOTS", "limit", "taskmanager.numberOfTaskSlots: 8")],
            id="full",
        ),
        pytest.param(ClusterFacts(capacity=slots(4, 1)), [("FREE_SLOTS", "note", None)], id="one slot free"),
        pytest.param(
            ClusterFacts(capacity=slots(4, 0, is_fixed=False)),
            [("CLUSTER_GROWS", "note", None)],
            id="full, but growing",
        ),
    ],
)
def test_cluster_is_told_what_it_needs(facts: ClusterFacts, expected: list[tuple[str, str, str | None]]) -> None:
    assert told(facts) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.17.2", True), ("1.18-SNAPSHOT", False), ("2.0.0", False), ("10.1", False), ("<unknown>", None)],
)
def test_version_is_old_before_1_18(version: str, expected: bool | None) -> None:
    assert lacks_rescale_api(version) is expected


@pytest.mark.parametrize(("text", "seconds"), [("2000", 2.0), ("5 s", 5.0), ("", 10.0), ("often", 10.0), ("0 ms", 0.0)])
def test_interval_of_metrics_is_read_in_both_forms(text: str, seconds: float) -> None:
    assert gathering_interval({"metrics.fetcher.update-interval": text}) == seconds
