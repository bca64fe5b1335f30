from __future__ import annotations

import pytest

from flink_autoscaler.core.errors import ResponseError
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.standalone.fetchers.job_configuration import (
    MAX_CHARACTERS,
    MAX_OPTIONS,
    autoscaler_options,
    merge_job_options,
    merge_reported,
)

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
    assert merge_job_options(merge_reported(defaults, reported), autoscaler_options(own)) == expected


def test_an_old_key_of_a_job_counts_whatever_was_set_before() -> None:
    configuration = merge_job_options({ENABLED: "false", "a": "1"}, autoscaler_options({OLD_ENABLED: "true"}))

    assert AutoscalerOptions(configuration).enabled


def test_of_much_that_a_job_says_only_what_is_read_is_kept() -> None:
    own = {ENABLED: "true", "jobmanager.scheduler": "adaptive"}
    foreign = {f"key{number}": "x" for number in range(MAX_OPTIONS)}

    assert merge_reported({"default": "1"}, {**own, **foreign}) == {"default": "1", **own}
    assert merge_reported({}, {**own, "query": "x" * MAX_CHARACTERS}) == own


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({f"{ENABLED}{number}": "x" for number in range(MAX_OPTIONS + 1)}, id="keys"),
        pytest.param({ENABLED: "x" * MAX_CHARACTERS}, id="characters"),
    ],
)
def test_more_options_than_are_read_are_an_error_that_counts_them(own: dict[str, str]) -> None:
    with pytest.raises(ResponseError, match=f"has {len(own)} options of .* at most {MAX_OPTIONS} of"):
        autoscaler_options(own)
    with pytest.raises(ResponseError, match=f"has {len(own)} options of .* at most {MAX_OPTIONS} of"):
        merge_reported({}, own)


def test_parameters_of_a_job_that_are_not_options_are_never_too_many() -> None:
    assert autoscaler_options({"query": "x" * MAX_CHARACTERS, ENABLED: "true"}) == {ENABLED: "true"}


def test_half_of_a_character_becomes_one_that_can_be_stored() -> None:
    assert merge_reported({}, {"\udfff": "a\ud800b"}) == {"\ufffd": "a\ufffdb"}
    assert autoscaler_options({ENABLED: "\ud800", f"{ENABLED}é": "😀"}) == {ENABLED: "\ufffd", f"{ENABLED}é": "😀"}
