"""Behaviour vectors measured from the reference autoscaler, replayed through the code of the daemon."""

from __future__ import annotations

from pathlib import Path

import pytest
from behaviour_vectors import read_vectors, replay

from flink_autoscaler.core.errors import ConfigError
from testkit.contracts.vectors import function_difference, scenario_differences

VECTORS = Path(__file__).parents[3] / "fixtures" / "vectors"


@pytest.mark.parametrize("name", ["scenarios_00", "scenarios_01", "scenarios_02", "scenarios_03"])
def test_scenarios_go_as_measured(name: str) -> None:
    vectors = read_vectors(VECTORS / f"{name}.json.gz")

    replayed = replay(vectors, progress=lambda *_: None)

    pairs = zip(vectors["cases"], replayed["cases"], strict=True)
    assert [difference for case, actual in pairs for difference in scenario_differences(case, actual)] == []


def test_single_calls_return_what_was_measured() -> None:
    vectors = read_vectors(VECTORS / "functions.json.gz")

    replayed = replay(vectors, progress=lambda *_: None)

    pairs = zip(vectors["cases"], replayed["cases"], strict=True)
    assert [text for case, actual in pairs if (text := function_difference(case, actual)) is not None] == []


def test_read_vectors_refuses_another_file(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"format": "other"}')

    with pytest.raises(ConfigError, match="not a file of behaviour vectors"):
        read_vectors(tmp_path / "other.json")


def test_read_vectors_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.json\.gz"):
        read_vectors(tmp_path / "missing.json.gz")
