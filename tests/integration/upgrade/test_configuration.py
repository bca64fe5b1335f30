"""Configurations of one version that another one reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from testkit.scenarios.upgrading import Version, said

pytestmark = pytest.mark.suite(name="upgrade")

CLUSTER = {"autoscaler.clusters.0.name": "main", "autoscaler.clusters.0.url": "http://127.0.0.1:1"}


def call(version: Version, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*version.program, *words], capture_output=True, text=True, timeout=300, check=False)


def written(file: Path, values: dict[str, str]) -> Path:
    file.write_text(yaml.safe_dump({**CLUSTER, "autoscaler.engine.kind": "inline", **values}))
    return file


def options_of(version: Version, folder: Path) -> dict[str, str]:
    """Return every option that a version knows and that has a value."""
    file = written(folder / f"{version.name}.yaml", {})
    shown = json.loads(said(call(version, "check-config", "--config", str(file), "--json")))
    return {each["key"]: each["value"] for each in shown["values"] if each["value"] not in (None, "(unset)")}


def test_every_option_of_the_last_release_still_is_one_or_is_refused_with_what_to_use(
    tmp_path: Path, old: Version, new: Version
) -> None:
    options = options_of(old, tmp_path)
    file = written(tmp_path / "all.yaml", options)

    checked = call(new, "check-config", "--config", str(file), "--json")

    refused = {line.split()[1]: line for line in checked.stderr.splitlines() if line.startswith("error: ")}
    print(f"\n{len(options)} options of {old.name}, of which {new.name} refuses {len(refused)}")
    assert refused.keys() <= options.keys()
    assert [line for line in refused.values() if " was removed; use " not in line] == []
    assert len(options) - len(refused) > 100


@pytest.mark.parametrize("command", ["run", "check-config"])
def test_option_that_the_older_version_does_not_know_is_named(
    tmp_path: Path, old: Version, new: Version, command: str
) -> None:
    known = options_of(old, tmp_path)
    added = {key: value for key, value in options_of(new, tmp_path).items() if key not in known}
    file = written(tmp_path / "newer.yaml", added)

    refused = call(old, command, "--config", str(file))

    assert added
    assert refused.returncode == 2
    assert [key for key in added if f"error: {key} ({file} line " not in refused.stderr] == []
    assert "Traceback" not in refused.stderr
