"""What the guide recommends to keep of Flink's metrics is what the daemon asks for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flink_autoscaler.clients.prometheus.questions import NAMES, PUSHED_AT

GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "prometheus-source.md"


@pytest.fixture(scope="module")
def kept() -> re.Pattern[str]:
    found = re.search(r"^ *regex: (.+)$", GUIDE.read_text(), re.MULTILINE)
    assert found is not None
    return re.compile(found[1])


@pytest.mark.parametrize("name", sorted(NAMES - {PUSHED_AT}))
def test_every_metric_that_is_asked_for_is_kept(kept: re.Pattern[str], name: str) -> None:
    assert kept.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["flink_taskmanager_job_task_checkpointAlignmentTime", "flink_jobmanager_job_uptime", "up"]
)
def test_what_nobody_asks_for_is_not(kept: re.Pattern[str], name: str) -> None:
    assert not kept.fullmatch(name)
