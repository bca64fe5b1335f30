"""``flink-autoscaler replay``, called as a person would."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path

from testkit.builders.forked_command import run_command
from testkit.contracts.vectors import scenario_differences

VECTORS = Path(__file__).parents[3] / "fixtures" / "vectors" / "scenarios_00.json.gz"


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(["replay", *arguments], os.environ)


def test_replay_writes_what_happened_in_every_case(tmp_path: Path) -> None:
    with gzip.open(VECTORS, "rt") as file:
        vectors = json.load(file)
    few = {**vectors, "cases": vectors["cases"][:2]}
    (tmp_path / "few.json").write_text(json.dumps(few))

    result = call("--vectors", str(tmp_path / "few.json"), "--output", str(tmp_path / "out.json"))

    assert (result.returncode, result.stderr) == (0, "")
    replayed = json.loads((tmp_path / "out.json").read_text())
    pairs = zip(few["cases"], replayed["cases"], strict=True)
    assert [text for case, actual in pairs for text in scenario_differences(case, actual)] == []


def test_replay_says_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    result = call("--vectors", str(tmp_path / "missing.json"), "--output", str(tmp_path / "out.json"))

    assert result.returncode == 2
    assert result.stderr.startswith("error: --vectors")
    assert len(result.stderr.splitlines()) == 1
