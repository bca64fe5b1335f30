"""The example plug-in, installed and used as an outside author would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "plugin"

# Runs in a process of its own: entry points are read once per process.
SCRIPT = """
import json, sys
from testkit.builders.core_passes import outcome_after_full_window

outcome = outcome_after_full_window(json.loads(sys.argv[1]))
print(json.dumps({"overrides": dict(outcome.state.overrides), "events": [event.reason for event in outcome.events]}))
"""
CHOSEN = {
    "evaluator": {
        "job.autoscaler.metrics.custom-evaluators": "extra",
        "job.autoscaler.metrics.custom-evaluator.extra.class": "autoscaler_headroom.HeadroomEvaluator",
        "job.autoscaler.metrics.custom-evaluator.extra.headroom": "1.1",
    },
    "executor": {
        "job.autoscaler.scaling.custom-executors": "keep",
        "job.autoscaler.scaling.custom-executor.keep.class": "autoscaler_headroom.KeepDuringOfficeHours",
    },
    "alignment": {
        "job.autoscaler.scaling.parallelism-alignment.mode": "pow2",
        "job.autoscaler.scaling.parallelism-alignment.mode.pow2.class": "autoscaler_headroom.PowersOfTwo",
    },
}
# What decides is in ``core_passes``: a source of 1,000 records/s with 2,000 records/s of capacity at parallelism 10.


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(target), str(EXAMPLE)], check=True, cwd=target)
    return target


def decide(site: Path | None, **options: str) -> dict[str, object]:
    """Decide about one job in a fresh process that has the plug-in installed, or not."""
    path = os.pathsep.join(map(str, [ROOT / "tests", *([site] if site else [])]))
    command = [sys.executable, "-c", SCRIPT, json.dumps(options)]
    result = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    decided: dict[str, object] = json.loads(result.stdout.splitlines()[-1])
    return decided


def test_evaluator_changes_what_is_planned_for(site: Path) -> None:
    plain, headroom = decide(site), decide(site, **CHOSEN["evaluator"])

    assert (plain["overrides"], headroom["overrides"]) == ({"a" * 32: 8}, {"a" * 32: 15})


def test_executor_vetoes_what_it_does_not_like(site: Path) -> None:
    decided = decide(site, **CHOSEN["executor"])

    assert decided == {"overrides": {}, "events": ["ScalingVetoed"]}


def test_alignment_mode_has_the_last_word(site: Path) -> None:
    decided = decide(site, **CHOSEN["evaluator"], **CHOSEN["alignment"])

    assert decided["overrides"] == {"a" * 32: 16}


def test_plugin_that_is_not_installed_is_reported_and_left_out() -> None:
    decided = decide(None, **CHOSEN["evaluator"])

    assert decided == {"overrides": {"a" * 32: 8}, "events": ["PluginProblem"]}
