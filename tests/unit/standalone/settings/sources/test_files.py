from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model.syntax import parse_list
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.sources.files import parse_yaml

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


def flat(text: str) -> dict[str, str]:
    layer = parse_yaml(text, "a.yaml")
    assert layer.problems == ()
    return {key: value.text for key, value in layer.values.items()}


@given(st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=8))
def test_any_flat_map_of_texts_comes_back(values: dict[str, str]) -> None:
    assert flat(yaml.safe_dump(values)) == values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param("# nothing\n", {}, id="only comments"),
        pytest.param("a: {b: {c: 1}}", {"a.b.c": "1"}, id="nested"),
        pytest.param("a.b:\n  c: 1", {"a.b.c": "1"}, id="nested below a dotted key"),
        pytest.param("a: 1.50\nb: 0x10\nc: 12:30\nd: 2026-01-01", None, id="numbers keep their text"),
        pytest.param("a: yes\nb: OFF\nc: True", {"a": "yes", "b": "OFF", "c": "True"}, id="words keep their text"),
        pytest.param("a: null\nb: ~\nc:\nd: ''\ne: 'null'", {"d": "", "e": "null"}, id="null is unset"),
        pytest.param("a: [x, 2, 'y;z']", {"a": "x;2;'y;z'"}, id="list"),
        pytest.param("a: []", {"a": ""}, id="empty list"),
        pytest.param("a: [{b: 1}, {b: 2}]", {"a.0.b": "1", "a.1.b": "2"}, id="list of maps"),
        pytest.param("x: &x {b: 1}\ny: *x", {"x.b": "1", "y.b": "1"}, id="alias"),
    ],
)
def test_a_document_is_flattened(text: str, expected: dict[str, str] | None) -> None:
    numbers = {"a": "1.50", "b": "0x10", "c": "12:30", "d": "2026-01-01"}

    assert flat(text) == (numbers if expected is None else expected)


def test_a_list_reads_back_as_a_list_of_flink() -> None:
    assert parse_list(flat('a: ["9:00-10:00 && * * * * * ?", "x;y"]')["a"]) == ("9:00-10:00 && * * * * * ?", "x;y")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("pipeline.jobvertex-parallelism-overrides: 'ab:4,cd:2'", id="as Flink writes it"),
        pytest.param("pipeline.jobvertex-parallelism-overrides: {ab: 4, cd: 2}", id="map"),
        pytest.param("pipeline:\n  jobvertex-parallelism-overrides:\n    ab: 4\n    cd: 2", id="nested map"),
    ],
)
def test_a_map_is_the_value_of_a_map_option_of_flink(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)

    settings = SettingsLoader(file, environment={}).read()

    (cluster,) = settings.effective_clusters()
    options = FlinkOptions(cluster.job_defaults)
    assert options.parallelism_overrides == {"ab": "4", "cd": "2"}
    assert options.is_set(FlinkOptions.parallelism_overrides)


@pytest.mark.parametrize(("text", "seconds"), [("1.5 s", 1.5), ("1min 30s", 90.0), ("0.1h", 360.0)])
def test_durations_of_the_daemon_are_written_as_people_do(text: str, seconds: float) -> None:
    overrides = [f"autoscaler.standalone.control-loop.interval={text}"]

    settings = SettingsLoader(overrides=overrides, environment={}).read()

    assert settings.standalone.control_loop_interval == seconds
