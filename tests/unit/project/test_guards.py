"""What the product promises is guarded by ``make test``, also where the rest of the suite is left to its own target."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from suites import SUITES

PROJECT = Path(__file__).parents[3]

GUARDED = {
    "rollback after a memory death": "tests/e2e/test_rescue_rollback.py",
    "an edit by hand": "tests/e2e/test_rescue_interference.py",
    "two jobs for one slot": "tests/e2e/test_slot_competition.py",
    "discovery and rescale on YARN": "tests/integration/yarn/test_flink_on_yarn.py",
    "a JobManager behind Kerberos": "tests/e2e/test_kerberos.py",
    "a week in which nothing grows": "tests/integration/soak/test_short_week.py",
    "a pass on a Spark cluster of two workers": "tests/integration/pipeline/test_cluster.py",
    "probes while clients attack": "tests/hostile/attacks/test_clients.py",
    "a service that answers without end": "tests/hostile/attacks/test_targets.py",
    "control characters of a job": "tests/hostile/attacks/test_foreign_characters.py",
    "a job's name that takes time": "tests/hostile/attacks/test_names.py",
    "a journal that is deleted": "tests/hostile/attacks/test_lost_journal.py",
    "a second daemon on one file": "tests/hostile/attacks/test_second_daemon.py",
    "the way back to the last release": "tests/integration/upgrade/test_way_back.py",
}


@pytest.mark.parametrize("promise", GUARDED)
def test_promise_is_guarded_by_one_test(promise: str) -> None:
    text = (PROJECT / GUARDED[promise]).read_text()

    assert text.count("pytest.mark.guard") == 1


def test_make_test_selects_the_guards_and_leaves_out_the_suites() -> None:
    told = subprocess.run(["make", "--dry-run", "test"], cwd=PROJECT, capture_output=True, text=True, check=True)

    assert set(re.findall(r'pytest .* -m "([^"]*)"', told.stdout)) == {"guard or not suite"}


def test_make_test_fast_runs_unit_tests_that_start_nothing() -> None:
    told = subprocess.run(["make", "--dry-run", "test-fast"], cwd=PROJECT, capture_output=True, text=True, check=True)

    (chosen,) = re.findall(r'pytest .* -m "not \(([^"]*)\)".* tests/unit tests/features$', told.stdout, re.MULTILINE)
    assert set(chosen.split(" or ")) == {"e2e", "suite", "spark", "browser", "faults", "database", "process"}


def test_every_marked_suite_can_be_run_by_its_name() -> None:
    marked = {
        name
        for path in (PROJECT / "tests").rglob("*.py")
        for name in re.findall(r'mark\.suite\(name="([^"]*)"\)', path.read_text())
    }

    assert marked <= set(SUITES)


def test_make_suite_lists_the_suites_and_refuses_another_name() -> None:
    script = [sys.executable, str(PROJECT / "tools" / "suites.py")]

    listed = subprocess.run(script, capture_output=True, text=True, check=True)
    refused = subprocess.run([*script, "yam"], capture_output=True, text=True, check=False)

    assert [line.split()[0] for line in listed.stdout.splitlines()[::2]] == list(SUITES)
    assert (refused.returncode, "no suite is called 'yam'" in refused.stderr) == (2, True)


def test_ci_installs_what_the_guards_take() -> None:
    text = (PROJECT / ".ci" / "run").read_text()

    for package in ("krb5-kdc", "faketime", "libapache2-mod-auth-gssapi", "libkrb5-dev", "openjdk-17-jdk-headless"):
        assert package in text
