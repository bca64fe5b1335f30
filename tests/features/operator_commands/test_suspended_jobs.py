"""Whatever makes the daemon leave a job alone is in its log, in ``jobs`` and in ``commands``, with its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Fingerprint, Pause, Supervision, SupervisionPhase
from flink_autoscaler.core.rescale.operator_commands import time_text
from testkit.builders.orders import KEY, OrderedJob
from testkit.scenarios.runner import LogLines


@pytest.fixture
def site(ordered: Callable[..., OrderedJob]) -> OrderedJob:
    return ordered()


def shown(site: OrderedJob, command: str) -> list[dict[str, Any]]:
    """Return for what the only job is suspended, as a command says it."""
    (job,) = json.loads(site.order(command, "--json", reason=None).stdout)[command]
    reasons: list[dict[str, Any]] = job["suspensions"]
    return reasons


def announced(site: OrderedJob) -> list[tuple[str, str]]:
    """Return what the log says about a job that is suspended, after a pass."""
    with LogLines() as lines:
        site.announce()
        return [(line["what"], line["until"]) for line in lines.of("job_scaling_suspended")]


def test_a_change_by_hand_is_in_log_jobs_and_orders_with_its_end(site: OrderedJob) -> None:
    site.remember(JobState(overrides={site.source: 1, site.work: 2}))
    site.run(2)
    site.job.requirements[site.work] = (1, 5)

    (line,) = announced(site)
    edit = site.remembered().supervision.edit
    assert edit is not None
    end = time_text(edit.until_ms)

    assert line == ("requirements edited", end)
    assert [(each["what"], each["ends"]) for each in shown(site, "jobs")] == [line]
    assert [(each["what"], each["ends"]) for each in shown(site, "commands")] == [line]
    assert f"requirements edited until {end}" in site.order("jobs", reason=None).stdout
    assert "requirements edited" in site.order("commands", reason=None).stdout


def test_a_pause_after_a_rollback_is_in_log_jobs_and_orders(site: OrderedJob) -> None:
    pause = Pause("operator", "rolled back to work 1", 1_000, Fingerprint(site.job.job_id), for_good=True)
    site.remember(JobState(supervision=Supervision(phase=SupervisionPhase.PAUSED, since_ms=1_000, pause=pause)))

    assert announced(site) == [("paused after a rollback", "resumed")]
    assert [each["ends"] for each in shown(site, "jobs")] == ["resumed"]
    assert [each["reason"] for each in shown(site, "commands")] == ["rolled back to work 1"]


def test_orders_of_people_are_in_log_and_jobs_and_told_once_until_they_end(site: OrderedJob) -> None:
    site.order("pause", KEY, "--down", "--new")
    site.order("dry-run", KEY, "on", "--new")

    with LogLines() as lines:
        site.announce()
        site.announce()
        told = [line["what"] for line in lines.of("job_scaling_suspended")]
        levels = {line["level"] for line in lines.of("job_scaling_suspended")}
    assert told == ["scaling down paused", "dry run"]
    assert levels == {"info"}, "somebody ordered it, and need not be warned of it"
    assert [each["what"] for each in shown(site, "jobs")] == told
    site.order("resume", KEY, reason=None)
    site.order("dry-run", KEY, "off", reason=None)

    with LogLines() as lines:
        site.announce()
        assert len(lines.of("job_scaling_resumed")) == 1
    assert shown(site, "jobs") == []
