from __future__ import annotations

import pytest

from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.standalone.settings.sources.job_layers import own_options, with_own_options, with_reported

ENABLED = "job.autoscaler.enabled"
OLD_ENABLED = "kubernetes.operator.job.autoscaler.enabled"


@pytest.mark.parametrize(
    ("defaults", "reported", "own", "expected"),
    [
        pytest.param({ENABLED: "true"}, {}, {}, {ENABLED: "true"}, id="defaults alone"),
        pytest.param({ENABLED: "true"}, {ENABLED: "false"}, {}, {ENABLED: "false"}, id="the cluster beats defaults"),
        pytest.param(
            {ENABLED: "true"}, {ENABLED: "false"}, {ENABLED: "true"}, {ENABLED: "true"}, id="the job beats the cluster"
        ),
        pytest.param({"a": "1"}, {"b": "2"}, {ENABLED: "true"}, {"a": "1", "b": "2", ENABLED: "true"}, id="all add up"),
        pytest.param(
            {"s3.secret": "real"}, {"s3.secret": "******"}, {}, {"s3.secret": "real"}, id="a mask hides nothing"
        ),
        pytest.param({ENABLED: "true"}, {}, {ENABLED: "******"}, {ENABLED: "true"}, id="nor does one of the job"),
        pytest.param(
            {},
            {"jobmanager.scheduler": "adaptive"},
            {"jobmanager.scheduler": "default"},
            {"jobmanager.scheduler": "adaptive"},
            id="a job brings options of the autoscaler only",
        ),
        pytest.param({}, {}, {"input": "x", "job.autoscalers": "y"}, {}, id="a job's other parameters are its own"),
        pytest.param({}, {}, {OLD_ENABLED: "true"}, {OLD_ENABLED: "true"}, id="a job may use the old prefix"),
        pytest.param(
            {ENABLED: "false"}, {}, {OLD_ENABLED: "true"}, {OLD_ENABLED: "true"}, id="and beats the new one with it"
        ),
        pytest.param(
            {ENABLED: "false"},
            {OLD_ENABLED: "true"},
            {},
            {ENABLED: "false", OLD_ENABLED: "true"},
            id="the cluster is laid over key by key, as in Java",
        ),
        pytest.param(
            {},
            {},
            {"job.autoscaler.scaling.custom-executor.a.x": "1"},
            {"job.autoscaler.scaling.custom-executor.a.x": "1"},
            id="a job may set parameters of plug-ins",
        ),
    ],
)
def test_later_layers_win(
    defaults: dict[str, str], reported: dict[str, str], own: dict[str, str], expected: dict[str, str]
) -> None:
    assert with_own_options(with_reported(defaults, reported), own_options(own)) == expected


def test_an_old_key_of_a_job_counts_whatever_was_set_before() -> None:
    configuration = with_own_options({ENABLED: "false", "a": "1"}, own_options({OLD_ENABLED: "true"}))

    assert AutoscalerOptions(configuration).enabled
