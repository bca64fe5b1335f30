"""Layers of the configuration: the later one wins, and every value keeps the place where it was set."""

from __future__ import annotations

from pathlib import Path

from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.sources.configuration import merge_layers
from flink_autoscaler.standalone.settings.sources.layer import Layer, Value


def layer(origin: str, **texts: str) -> Layer:
    return Layer({f"autoscaler.http.{key}": Value(text, origin) for key, text in texts.items()})


def test_the_later_layer_wins_and_brings_its_origin() -> None:
    merged = merge_layers([layer("a.yaml line 3", port="1", host="here"), layer("--set", port="2")])

    assert {key: (value.text, value.origin) for key, value in merged.values.items()} == {
        "autoscaler.http.port": ("2", "--set"),
        "autoscaler.http.host": ("here", "a.yaml line 3"),
    }


def test_what_is_wrong_in_any_layer_is_kept_in_the_order_of_the_layers() -> None:
    merged = merge_layers([layer("a.yaml line 3", prt="1"), Layer(problems=("--set number 1: expected key=value",))])

    assert merged.problems == (
        "autoscaler.http.prt (a.yaml line 3): unknown key; did you mean 'autoscaler.http.port'?",
        "--set number 1: expected key=value",
    )


def test_an_entry_of_a_list_is_made_of_several_layers(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("autoscaler.clusters:\n  - name: main\n    url: http://a:1\n")
    environment = {"AUTOSCALER__CLUSTERS__0__URL": "http://b:2"}

    values = SettingsLoader(file, environment=environment).configuration().values

    assert values["autoscaler.clusters.0.name"] == Value("main", f"{file} line 2")
    assert values["autoscaler.clusters.0.url"] == Value(
        "http://b:2", "environment variable AUTOSCALER__CLUSTERS__0__URL"
    )
