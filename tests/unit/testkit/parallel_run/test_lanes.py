"""Which worker runs which file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from testkit.parallel_run.lanes import LAST, LONGEST, ON_ONE_SPARK, WAITING, chosen, scope_of, turn

TESTS = Path(__file__).parents[3]
PROJECT = Path(__file__).parents[4]
WAITS = "tests/e2e/test_waits.py"
COMPUTES = "tests/unit/test_computes.py"


@pytest.mark.parametrize(("waiting", "first"), [(True, WAITS), (False, COMPUTES)])
def test_a_worker_takes_its_own_kind_first(waiting: bool, first: str) -> None:
    assert [chosen(scopes, waiting=waiting) for scopes in ([WAITS, COMPUTES], [COMPUTES, WAITS])] == [first, first]


def test_files_that_take_long_are_begun_first() -> None:
    files = [COMPUTES, "tests/integration/test_spark.py", WAITS, "tests/e2e/test_demo_on_flink.py"]

    assert sorted(files, key=turn) == [files[3], files[1], files[0], files[2]]


def test_files_that_share_a_spark_stay_together_and_others_alone() -> None:
    assert {scope_of(f"{file}::test_it[1]") for file in ON_ONE_SPARK} == {ON_ONE_SPARK[0]}
    assert scope_of(f"{COMPUTES}::test_it") == COMPUTES


def test_spark_connect_comes_after_everything_else_that_waits() -> None:
    assert max([LAST, WAITS, "tests/e2e/test_demo_on_flink.py"], key=turn) == LAST
    assert chosen([COMPUTES, LAST], waiting=True) == LAST


@pytest.mark.parametrize("start", sorted({*LONGEST, *WAITING, *ON_ONE_SPARK}))
def test_files_that_are_named_exist(start: str) -> None:
    assert (PROJECT / start).exists()


def test_a_file_stays_with_one_worker_and_both_kinds_run_beside_each_other(tmp_path: Path) -> None:
    for name in (WAITS, "tests/e2e/test_waits_too.py", COMPUTES, "tests/unit/test_computes_too.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("import pytest\n@pytest.mark.parametrize('n', range(5))\ndef test_it(n): pass\n")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS}\naddopts = -p no:cacheprovider\n")
    (tmp_path / "conftest.py").write_text("pytest_plugins = ['testkit.parallel_run']\n")

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-n", "2", "--dist", "loadfile"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert run.returncode == 0, run.stdout
    ran = [line.split() for line in run.stdout.splitlines() if " PASSED " in line]
    workers = {(words[-1].split("::")[0], words[0]) for words in ran}
    assert len(ran) == 20
    assert len(workers) == 4
    assert {(WAITS, "[gw0]"), (COMPUTES, "[gw1]")} <= workers
