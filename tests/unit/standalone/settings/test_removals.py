"""What earlier versions had is refused with what to use instead, with the line and the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from flink_autoscaler.clients.flink.pass_plugins import POLICIES
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.removals import (
    removed_command_problem,
    removed_key_problem,
    removed_keys,
    removed_plugins,
)
from flink_autoscaler.standalone.settings.schema.options import unknown_key_problem

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
