from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from flink_autoscaler.core.model.metrics import EvaluatedMetric, MetricSample, ScalingMetric
from flink_autoscaler.core.model.numbers import INFINITY, NAN
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.stores.testing.store_contract import full_state, same_state


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param(NAN, NAN, True, id="unknown is unknown"),
        pytest.param(NAN, 0.0, False, id="unknown is not zero"),
        pytest.param(INFINITY, -INFINITY, False, id="infinities have a sign"),
        pytest.param(1, 1.0, True, id="whole numbers"),
        pytest.param("1", 1, False, id="text is no number"),
        pytest.param(None, NAN, False, id="missing is not unknown"),
        pytest.param({"a": NAN, "b": 1}, {"b": 1, "a": NAN}, True, id="order of maps"),
        pytest.param({"a": 1}, {}, False, id="missing key"),
        pytest.param({ScalingMetric.LAG: 1}, {"LAG": 1}, False, id="a metric is more than its name"),
        pytest.param((NAN, 1), (NAN,), False, id="length of tuples"),
        pytest.param(EvaluatedMetric(NAN, 1.0), EvaluatedMetric(NAN, 2.0), False, id="named tuple"),
        pytest.param(frozenset({"a"}), frozenset({"a"}), True, id="sets"),
    ],
)
def test_same_state_compares_parts(left: object, right: object, expected: bool) -> None:
    assert same_state(left, right) is expected
    assert same_state(right, left) is expected


@pytest.mark.parametrize("part", [field.name for field in dataclasses.fields(JobState)])
def test_same_state_sees_a_difference_in_each_part(part: str) -> None:
    changed = dataclasses.replace(full_state(), **{part: getattr(JobState(), part)})

    assert same_state(full_state(), full_state())
    assert not same_state(full_state(), changed)


def test_same_state_sees_an_incomplete_flag() -> None:
    complete = MetricSample(1, {"v": {}}, {})

    assert not same_state(complete, dataclasses.replace(complete, incomplete=frozenset({"v"})))


def test_stores_can_be_imported_without_pytest() -> None:
    roots = [str(Path(__file__).parents[4] / part) for part in ("core", "stores")]
    code = f"import sys; sys.path[:0] = {roots}; import flink_autoscaler.stores; assert 'pytest' not in sys.modules"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
