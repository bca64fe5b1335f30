"""What earlier versions had is refused with what to use instead, with the line and the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from flink_autoscaler.clients.flink.pass_plugins import POLICIES
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.removals import (
    removed_command_problem,
    removed_key_problem,
    removed_keys,
    removed_plugins,
    renamed,
)
from flink_autoscaler.standalone.settings.schema.options import (
    daemon_options,
    job_keys,
    match_option,
    unknown_key_problem,
)

PROVIDERS = "flink_autoscaler.task_manager_providers"


CLUSTER = "autoscaler:\n  clusters:\n    - name: c\n      url: http://127.0.0.1:1\n"


def refusal(text: str, directory: Path) -> str:
    file = directory / "autoscaler.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        SettingsLoader(file, environment={}).read()
    return str(refused.value)


def test_no_removed_key_is_known() -> None:
    keys = [key.replace("<n>", "3") for key in removed_keys()]

    assert [key for key in keys if unknown_key_problem(key) != removed_key_problem(key)] == []
    assert None not in map(removed_key_problem, keys)


def test_a_removed_key_is_refused_where_it_stands(tmp_path: Path) -> None:
    told = refusal(f"{CLUSTER}      provider:\n        directory: /x\n", tmp_path)

    assert "autoscaler.yaml line 6" in told
    assert "was removed; use autoscaler.clusters.<n>.provider.type: command with conf/taskmanagers.sh" in told


def test_a_removed_key_of_a_job_is_refused_by_both_of_its_prefixes(tmp_path: Path) -> None:
    keys = ("job.autoscaler.threshold.up.duration", "kubernetes.operator.job.autoscaler.capacity.mode")

    told = refusal(f"{keys[0]}: 1 h\n{keys[1]}: integral\n{CLUSTER}", tmp_path)

    assert "autoscaler.yaml line 1" in told
    assert "autoscaler.yaml line 2" in told
    assert told.count("was removed; use job.autoscaler.") == len(keys)


@pytest.mark.parametrize("name", removed_plugins()[POLICIES])
def test_a_removed_policy_is_refused_with_what_to_use_instead(name: str, tmp_path: Path) -> None:
    told = refusal(f"job.autoscaler.policy: {name}\n{CLUSTER}", tmp_path)

    assert f"'{name}' was removed; use {removed_plugins()[POLICIES][name]}" in told


@pytest.mark.parametrize("name", removed_plugins()[PROVIDERS])
def test_a_removed_provider_is_refused_with_what_to_use_instead(name: str, tmp_path: Path) -> None:
    told = refusal(f"{CLUSTER}      provider:\n        type: {name}\n  realizer: auto\n", tmp_path)

    assert f"'{name}' was removed; use {removed_plugins()[PROVIDERS][name]}" in told


def test_a_removed_command_is_told_from_others_by_all_its_words() -> None:
    assert "use db quarantine" in (removed_command_problem(["db", "restore", "7"]) or "")
    assert removed_command_problem(["db", "status"]) is removed_command_problem(["db"]) is None


TWO_CLUSTERS = "autoscaler.clusters:\n  - name: a\n    url: http://a:8081\n  - name: b\n    url: http://b:8081\n"


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
    text = f"kubernetes.operator.job.autoscaler.capacity.priority: 1\n{TWO_CLUSTERS}    capacity: fixed\n"
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
    loader = loader_of(tmp_path, f"scalingInterval: 20 s\njob.autoscaler.target.utilization: 0.5\n{TWO_CLUSTERS}")

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
