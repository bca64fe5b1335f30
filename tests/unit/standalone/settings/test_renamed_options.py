"""Options that are called otherwise now: the old key still counts, the new one wins, and it is told once."""

from __future__ import annotations

from pathlib import Path

import pytest

from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.clusters import Growth
from flink_autoscaler.standalone.settings.schema.options import current_key, daemon_options, job_keys

CLUSTER = "autoscaler.clusters:\n  - name: a\n    url: http://a:8081\n  - name: b\n    url: http://b:8081\n"
SLOTS = "autoscaler.clusters.1.slots"


def loader_of(directory: Path, text: str, *overrides: str) -> SettingsLoader:
    file = directory / "autoscaler.yaml"
    file.write_text(text, encoding="utf-8")
    return SettingsLoader(file, overrides, environment={})


def warnings_of_old_keys(loader: SettingsLoader) -> list[str]:
    return [each for each in loader.load()[1].warnings if "is called" in each]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param("    capacity: fixed\n", [Growth.AUTO, Growth.FIXED], id="old key"),
        pytest.param("    slots: elastic\n", [Growth.AUTO, Growth.ELASTIC], id="new key"),
        pytest.param("    capacity: fixed\n    slots: elastic\n", [Growth.AUTO, Growth.ELASTIC], id="the new key wins"),
    ],
)
def test_a_cluster_says_by_either_key_whether_its_slots_are_fixed(
    tmp_path: Path, texts: str, expected: list[Growth]
) -> None:
    assert [cluster.slots for cluster in loader_of(tmp_path, CLUSTER + texts).read().clusters] == expected


def test_a_wrong_value_of_the_old_key_is_named_by_that_key(tmp_path: Path) -> None:
    loader = loader_of(tmp_path, f"{CLUSTER}    capacity: much\n")

    with pytest.raises(Exception, match=r"autoscaler.clusters.1.capacity = 'much' .*: expected auto, fixed or elastic"):
        loader.read()


@pytest.mark.parametrize(
    ("key", "current", "value"),
    [
        ("capacity.enabled", "slots.fair-shares.enabled", "false"),
        ("capacity.priority", "slots.priority", "3"),
        ("capacity.weight", "slots.weight", "2.0"),
    ],
)
@pytest.mark.parametrize("prefix", ["job.autoscaler.", "kubernetes.operator.job.autoscaler."])
def test_shares_of_jobs_are_read_by_their_old_keys(prefix: str, key: str, current: str, value: str) -> None:
    option = job_keys()[f"job.autoscaler.{current}"]

    assert option.read({prefix + key: value}) == option.parse(value) != option.default
    assert option.read({prefix + key: "9", option.key: value}) == option.parse(value)
    assert current_key(prefix + key) == option.key


def test_every_old_key_in_use_is_told_with_its_place_and_the_new_one(tmp_path: Path) -> None:
    text = f"job.autoscaler.capacity.priority: 1\n{CLUSTER}    capacity: fixed\n"
    old = "autoscaler.clusters.0.options.job.autoscaler.capacity.weight"

    warnings = warnings_of_old_keys(loader_of(tmp_path, text, f"{old}=2"))

    file = tmp_path / "autoscaler.yaml"
    assert warnings == [
        f"job.autoscaler.capacity.priority ({file} line 1) is called job.autoscaler.slots.priority now; the old key "
        "still works",
        f"autoscaler.clusters.1.capacity ({file} line 7) is called {SLOTS} now; the old key still works",
        f"{old} (--set) is called autoscaler.clusters.0.options.job.autoscaler.slots.weight now; the old key still "
        "works",
    ]


def test_current_keys_are_not_told(tmp_path: Path) -> None:
    loader = loader_of(tmp_path, f"job.autoscaler.slots.priority: 1\n{CLUSTER}    slots: fixed\n")

    assert not warnings_of_old_keys(loader)


def test_capacity_is_what_a_vertex_can_process_and_nothing_else() -> None:
    keys = [each.key for each in daemon_options()] + [each.key for each in AutoscalerOptions.all_options()]

    assert [key for key in keys if "capacity" in key] == []
