"""The simulator comes to what real Flink comes to: half an hour of one curve, with two policies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from testkit.scenarios.agreement.report import reported
from testkit.scenarios.agreement.site import recorded

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="long")]

KEPT = Path(__file__).parents[2] / "build" / "agreement"
"""Where recording and table stay; ``python -m testkit.scenarios.agreement build/agreement`` compares it again."""


def test_the_simulator_agrees_with_flink(tmp_path: Path) -> None:
    try:
        report = reported(recorded(tmp_path))
        (tmp_path / "agreement.md").write_text(report.text, encoding="utf-8")
    finally:
        shutil.rmtree(KEPT, ignore_errors=True)
        shutil.copytree(tmp_path, KEPT, ignore=shutil.ignore_patterns("flink", "daemon.state"))

    print(f"\n{report.text}")
    assert report.problems == ()
