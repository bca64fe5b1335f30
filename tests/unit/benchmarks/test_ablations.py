"""Constants of ``slo`` that are halved and doubled, and the simulation that is run with them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.policy_study.ablations import variants
from flink_autoscaler.core.policies.slo.constants import CONSTANTS

PROJECT = Path(__file__).parents[3]
CASE = {
    "options": {"policy": "slo", "slo.lag": "60 s"},
    "rows": [*[[60_000.0]] * 60, *[[10_000.0]] * 180],
    "step": 60.0,
    "outage": 10.0,
    "limit": 60.0,
}


@pytest.mark.parametrize(("name", "chosen"), asdict(CONSTANTS).items())
def test_every_constant_has_a_smaller_and_a_greater_value(name: str, chosen: Any) -> None:
    half, double = variants(name, chosen)

    assert half != chosen != double
    if isinstance(chosen, tuple):
        assert sum(double) == sum(chosen)
    else:
        assert min(half, double) < chosen < max(half, double)


def simulated(constants: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.policy_study.simulation_process"]
    asked = json.dumps({**CASE, "constants": constants})
    return subprocess.run(command, cwd=PROJECT, input=asked, capture_output=True, text=True, check=False)


def test_constants_are_changed_for_a_simulation() -> None:
    as_chosen, patient = (json.loads(simulated(each).stdout) for each in ({}, {"downs": 10_000}))

    assert as_chosen["rescales"] > patient["rescales"]


def test_an_unknown_constant_is_named() -> None:
    assert simulated({"magic": 1}).stderr.strip() == "slo has no constant magic"
