"""The example of a policy: it keeps the contract, decides as its paper does, and works installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.policy_values import JobObservation
from flink_autoscaler.core.policies.testing.contract import ScalingPolicyContract
from flink_autoscaler.core.ports.plugins import ScalingPolicy
from testkit.builders.policies import codes, given, observation, run, vertex

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "policy"
PLAIN = {"ds2.warm-up": "0", "ds2.activation": "1", "ds2.scaling-factor": "0", "catch-up.duration": "0 s"}
"""Decides at its first look, for exactly what arrives."""


def load_example() -> Any:
    spec = importlib.util.spec_from_file_location("autoscaler_ds2", EXAMPLE / "src" / "autoscaler_ds2" / "__init__.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


DS2: Any = load_example()


def with_own_keys(options: Mapping[str, str]) -> dict[str, str]:
    """Return options by full key; those of the example have no prefix."""
    return {key if key.startswith("ds2.") else f"job.autoscaler.{key}": value for key, value in options.items()}


class TestDs2Policy(ScalingPolicyContract):
    patience = 6

    def make_policy(self) -> ScalingPolicy:
        policy: ScalingPolicy = DS2.Ds2Policy()
        return policy


class TestDs2PolicyAtOnce(TestDs2Policy):
    patience = 2

    def config(self) -> Mapping[str, str]:
        return with_own_keys(PLAIN)


def propose(obs: JobObservation, options: Mapping[str, str]) -> Any:
    return DS2.Ds2Policy().propose(replace(given(obs), config=with_own_keys(options)))


def word_count() -> JobObservation:
    """Reads 60 000 of 100 000 records/s, as the filter holds the map back; the source costs nothing."""
    return observation(
        vertex("source", rate_in=60_000.0, busy=0.1, target_rate=100_000.0, parallelism=1),
        vertex("map", parallelism=4, rate_in=60_000.0, busy=0.75),
        vertex("filter", parallelism=6, rate_in=150_000.0, busy=0.9),
        vertex("window", parallelism=2, rate_in=15_000.0, busy=0.3),
    )


@pytest.mark.parametrize(
    ("factor", "expected"), [("0", (5, 9, 1)), ("0.1", (6, 10, 2))], ids=["just enough", "a tenth more"]
)
def test_one_look_sizes_all_vertices(factor: str, expected: tuple[int, int, int]) -> None:
    proposal = propose(word_count(), {**PLAIN, "ds2.scaling-factor": factor})

    assert proposal.targets == {"source": 1, **dict(zip(("map", "filter", "window"), expected, strict=True))}


@pytest.mark.parametrize(
    ("ratio", "expected"), [("1.02", 20), ("1.06", 19)], ids=["19 x 2.0 / 1.9", "within the ratio"]
)
def test_what_busy_time_does_not_show_is_added(ratio: str, expected: int) -> None:
    source = vertex(parallelism=19, rate_in=1.9e6, target_rate=2.0e6, true_rate=2.0e6, busy=0.95)

    proposal = propose(observation(source), {**PLAIN, "ds2.target-rate-ratio": ratio})

    assert proposal.targets == {"source": expected}


def test_it_warms_up_and_then_takes_the_greatest_need_of_three_passes() -> None:
    proposals = run(DS2.Ds2Policy(), [given(word_count()) for _ in range(5)])

    assert [codes(each) & {"WARM_UP", "ACTIVATION"} for each in proposals] == [
        {"WARM_UP"},
        {"WARM_UP"},
        {"ACTIVATION"},
        {"ACTIVATION"},
        set(),
    ]


@pytest.mark.parametrize(("key", "value"), [("ds2.warm-up", "-1"), ("ds2.scaling-factor", "much")])
def test_an_invalid_setting_names_its_key(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        propose(word_count(), {key: value})


def test_a_backtest_runs_with_the_installed_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(tmp_path), str(EXAMPLE)], check=True, cwd=tmp_path)
    options = ("--workload", "step", "--days", "0.2", "--step", "10", "--master", "none", "--json")

    backtest = [sys.executable, "-m", "flink_autoscaler.standalone", "backtest", *options]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run(
        [*backtest, "--set", "job.autoscaler.policy=ds2", "--set", "ds2.scaling-factor=0.3"],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )

    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)
