"""The study of policies: its loads, its cost, its table, and its command as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.policy_study.cases import PAIRS, RECORDED, SETS, Case, cases
from benchmarks.policy_study.table import Result, append_result, read_results, table
from flink_autoscaler.pipeline.simulator.workloads import DAY, WEEK

ROOT = Path(__file__).parents[3]
SWING = Case("swing", 0, 7.0, "60/60")
WALK = Case("walk", 0, 7.0, "60/60")


def a_result(label: str, case: Case, slot_seconds: float, late: float = 0.0) -> Result:
    """Return a result of a week beside an oracle that holds a thousand slot-seconds and is late for two seconds."""
    figures = {"slot_seconds": slot_seconds, "late": late, "rescales": 14, "duration": WEEK, "processor": 30.0}
    return Result(label, "0123", case, figures, {"slot_seconds": 1000.0, "late": 2.0, "rescales": 1})


def cells(lines: list[str], load: str, policy: str) -> list[str]:
    """Return the figures of one row."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return next(row[2:] for row in rows if row[:2] == [load, policy])


def test_loads_of_the_sets_differ_in_shape_and_seed() -> None:
    tune, check = SETS["tune"], SETS["check"]

    assert not set(tune.shapes) & set(check.shapes)
    assert not set(tune.seeds) & set(check.seeds)
    assert set(RECORDED) <= {*tune.shapes, *check.shapes}


@pytest.mark.parametrize("name", SETS)
def test_every_load_of_a_set_can_be_made(name: str) -> None:
    found = {case: case.workload() for case in cases(name, ("60/60",), 0.5)}

    assert {case.shape for case in found} == set(SETS[name].shapes)
    assert all(workload.duration == pytest.approx(DAY / 2, abs=60) for workload in found.values())
    assert all(max(sum(row) for row in workload.rows) > 0 for workload in found.values())


def test_seeds_take_other_days_of_a_recorded_series() -> None:
    days = [Case("GOOG", seed, 1.0, "60/60").workload().rows for seed in SETS["tune"].seeds]

    assert all(one != other for one, other in pairwise(days))


def test_pair_says_how_long_a_rescale_takes_and_what_is_late() -> None:
    case = Case("swing", 0, 7.0, "180/300")

    assert (case.outage, case.limit) == (180.0, 300.0)
    assert case.pair in PAIRS


def test_cost_charges_150_slot_seconds_per_second_late_to_both_sides() -> None:
    result = a_result("mine", SWING, 1150.0, late=10.0)

    assert result.cost == pytest.approx((1150 + 1500) / (1000 + 300))
    assert result.slots == pytest.approx(1.15)


def test_table_compares_on_the_loads_that_all_policies_have() -> None:
    results = [
        a_result("mine", SWING, 1300.0),
        a_result("mine", WALK, 2600.0, late=0.006 * WEEK),
        a_result("other", SWING, 2600.0),
    ]

    lines = table(results, [SWING, WALK], ["mine", "other"])

    assert cells(lines, "swing 60/60", "mine") == ["1", "1.000", "1.300", "0.00", "0", "0", "2.0", "30"]
    assert cells(lines, "walk 60/60", "mine")[3:6] == ["0.60", "60", "1"]
    assert cells(lines, "**all 60/60**", "mine")[:3] == ["1", "1.000 (1.00)", "1.300 (1.30)"]
    assert cells(lines, "**all 60/60**", "other")[:3] == ["1", "2.000 (2.00)", "2.600 (2.60)"]


def test_costs_of_several_loads_are_a_geometric_mean() -> None:
    results = [a_result("mine", SWING, 1300.0), a_result("mine", WALK, 5200.0)]

    assert cells(table(results, [SWING, WALK], ["mine"]), "**all 60/60**", "mine")[1] == "2.000 (4.00)"


def test_newest_result_of_a_load_counts() -> None:
    results = [a_result("mine", SWING, 2600.0), a_result("mine", SWING, 1300.0)]

    assert cells(table(results, [SWING], ["mine"]), "swing 60/60", "mine")[:2] == ["1", "1.000"]


def test_results_are_read_as_they_were_written_without_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path, result = tmp_path / "not" / "there.jsonl", a_result("mine", SWING, 1300.0)

    assert read_results(path) == []
    append_result(path, result)
    with path.open("a") as file:
        file.write('{"label": "mi')

    assert read_results(path) == [result]


def study(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command for two hours of each load."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.policy_study", "--days", str(2 / 24), "--processes", "1", *arguments],
        cwd=ROOT,
        env={**os.environ, "FLINK_AUTOSCALER_CACHE": str(cache)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_study_runs_nothing_twice(tmp_path: Path) -> None:
    asked = ("--policy", "capacity", "slo", "--load", "elb", "opposite", "--seeds", "1")

    first, again = study(tmp_path, *asked), study(tmp_path, *asked)

    assert (first.returncode, again.returncode) == (0, 0), first.stderr
    assert len(first.stderr.splitlines()) == len(read_results(tmp_path / "policy-study.jsonl")) == 4
    assert again.stderr == ""
    assert again.stdout == first.stdout
    assert cells(first.stdout.splitlines(), "**all 60/60**", "slo")[0] == "2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--load", "ofice"), "the set tune has no ofice; it has office week-sine", id="load"),
        pytest.param(("--option", "slo.lag"), "slo.lag is not KEY=VALUE", id="option"),
        pytest.param(("--pair", "1/2"), "10/60", id="pair"),
        pytest.param(("--set", "check"), "say why the check set is looked at", id="a look without a reason"),
    ],
)
def test_study_refuses_what_it_does_not_know(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    answer = study(tmp_path, *arguments)

    assert answer.returncode == 2
    assert message in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_study_ends_at_a_policy_that_does_not_exist(tmp_path: Path) -> None:
    answer = study(tmp_path, "--policy", "ds3", "--load", "elb", "--seeds", "1")

    assert answer.returncode == 1
    assert "'ds3', but the policies are capacity, slo, varga" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert read_results(tmp_path / "policy-study.jsonl") == []
