"""Options, commands and their flags that are called otherwise now: each old name is refused with the new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.removals import removed_command_problem, renamed
from flink_autoscaler.standalone.settings.schema.options import (
    daemon_options,
    job_keys,
    match_option,
    unknown_key_problem,
)

CLUSTER = "autoscaler.clusters:\n  - name: a\n    url: http://a:8081\n  - name: b\n    url: http://b:8081\n"


def loader_of(directory: Path, text: str, *overrides: str) -> SettingsLoader:
    file = directory / "autoscaler.yaml"
    file.write_text(text, encoding="utf-8")
    return SettingsLoader(file, overrides, environment={})


@pytest.mark.parametrize("old", renamed())
def test_a_renamed_key_is_unknown_and_the_new_one_is_known(old: str) -> None:
    rest = "0.name" if old.endswith(".") else ""

    problem = unknown_key_problem(f"{old}{rest}".replace("<n>", "3"))

    new = f"{renamed()[old]}{rest}"
    assert problem == f"was renamed; use {new}"
    key = new.replace("<n>", "3")
    assert key in job_keys() or match_option(key) is not None


def test_renamed_keys_are_refused_with_their_places_and_the_new_ones(tmp_path: Path) -> None:
    text = f"kubernetes.operator.job.autoscaler.capacity.priority: 1\n{CLUSTER}    capacity: fixed\n"
    text += "autoscaler.numbers:\n  - name: gateway\n    url: http://gateway:80\n"
    old = "autoscaler.clusters.0.options.job.autoscaler.capacity.weight"

    with pytest.raises(ConfigError) as refused:
        loader_of(tmp_path, text, f"{old}=2").read()

    told = str(refused.value)
    file = tmp_path / "autoscaler.yaml"
    assert f"capacity.priority ({file} line 1): was renamed; use job.autoscaler.slots.priority" in told
    assert f"({file} line 7): was renamed; use autoscaler.clusters.<n>.slots" in told
    assert f"({file} line 9): was renamed; use autoscaler.external-metrics.0.name" in told
    assert f"{old} (--set): was renamed; use job.autoscaler.slots.weight" in told


def test_keys_of_the_java_autoscaler_still_count_by_their_older_names(tmp_path: Path) -> None:
    loader = loader_of(tmp_path, f"scalingInterval: 20 s\njob.autoscaler.target.utilization: 0.5\n{CLUSTER}")

    settings, more = loader.load()

    assert settings.standalone.control_loop_interval == 20
    assert sum("is called" in each for each in more.warnings) == 2


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("orders --json", "'orders' was renamed; use commands"),
        ("db set-aside", "'db set-aside' was renamed; use db quarantine"),
        ("once --json --url=http://a", "'once --url' was renamed; use once --jobmanager-url"),
        ("explain orders --url http://a", "'explain --url' was renamed; use explain --daemon-url"),
        ("explain orders", None),
        ("once --daemon-url x", None),
    ],
)
def test_a_renamed_command_or_option_of_one_is_refused_with_the_new_name(line: str, problem: str | None) -> None:
    assert removed_command_problem(line.split()) == problem


def test_capacity_is_what_a_vertex_can_process_and_nothing_else() -> None:
    keys = [each.key for each in daemon_options()] + [each.key for each in AutoscalerOptions.all_options()]

    assert [key for key in keys if "capacity" in key] == []
