from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import ScalingRealizer
from flink_autoscaler.realizers import LogOnlyRealizer
from flink_autoscaler.realizers.testing.realizer_contract import ScalingRealizerContract
from testkit.builders.realizers import SINK, SOURCE, Cluster

JOB = JobAutoScalerContext("c/orders", "0" * 32, JobStatus.RUNNING, {}, Endpoint("http://127.0.0.1:1"), cluster="c")


class TestLogOnlyRealizer(ScalingRealizerContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def make_realizer(self) -> ScalingRealizer:
        return LogOnlyRealizer()

    def running_job(self) -> JobAutoScalerContext:
        return self.cluster.context()

    def vertices(self) -> Sequence[str]:
        return [SOURCE, SINK]

    def changes(self) -> Sequence[object]:
        return self.cluster.requests


def test_a_dry_run_sends_no_request_at_all(cluster: Cluster) -> None:
    realizer = LogOnlyRealizer()

    for parallelism in (1, 3, 4):
        realizer.realize_overrides(cluster.context(), {SOURCE: parallelism, SINK: 4})
        realizer.realize_config(cluster.context(), ConfigChanges({"a": str(parallelism)}))

    assert cluster.requests == []
    assert cluster.flink.connections == 0


def test_what_would_be_requested_is_logged_whenever_it_changes() -> None:
    realizer = LogOnlyRealizer()

    with capture_logs() as lines:
        for parallelism in (2, 2, 3, 3, 2):
            realizer.realize_overrides(JOB, {"a": parallelism})

    assert [line["parallelism"] for line in lines] == [{"a": 2}, {"a": 3}, {"a": 2}]
    assert {(line["event"], line["log_level"], line["cluster"], line["job_key"]) for line in lines} == {
        ("dry_run_rescale", "info", "c", "c/orders")
    }


def test_a_later_change_of_the_callers_map_is_not_missed() -> None:
    realizer, overrides = LogOnlyRealizer(), {"a": 2}

    with capture_logs() as lines:
        realizer.realize_overrides(JOB, overrides)
        overrides["a"] = 3
        realizer.realize_overrides(JOB, overrides)

    assert [line["parallelism"] for line in lines] == [{"a": 2}, {"a": 3}]


def test_a_job_that_is_not_running_is_not_logged() -> None:
    with capture_logs() as lines:
        LogOnlyRealizer().realize_overrides(dataclasses.replace(JOB, status=JobStatus.RESTARTING), {"a": 2})

    assert lines == []


def test_an_unusable_parallelism_is_an_error() -> None:
    with pytest.raises(RealizeError, match="vertex a"):
        LogOnlyRealizer().realize_overrides(JOB, {"a": 0})


def test_configuration_is_logged_by_key_when_it_changes() -> None:
    realizer = LogOnlyRealizer()

    with capture_logs() as lines:
        for secret in ("one", "one", "two"):
            realizer.realize_config(JOB, ConfigChanges({"some.password": secret}, ("other",)))

    assert [(line["set_keys"], line["removed_keys"]) for line in lines] == [(["some.password"], ["other"])] * 2
    assert "two" not in str(lines)
