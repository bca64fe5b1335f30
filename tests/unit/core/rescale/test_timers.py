"""How long a rescale may take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.policy_values import Outage
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, RescaleFacts, TaskManagerFacts
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, RescaleRecord
from flink_autoscaler.core.rescale.timers import (
    SLACK_MS,
    accept_ms,
    allowed_ms,
    expected_downtime,
    observation_ms,
)
from testkit.builders.core import a_context

SCHEDULER = "jobmanager.adaptive-scheduler."
QUICK = {
    f"{SCHEDULER}executing.cooldown-after-rescaling": "1 s",
    f"{SCHEDULER}executing.resource-stabilization-timeout": "2 s",
    f"{SCHEDULER}submission.resource-stabilization-timeout": "4 s",
}
ESTIMATE = Outage(mean=5.0, q90=8.0)
NOTHING = RescaleFacts()
EVERY_MINUTE = RescaleFacts(checkpoints=CheckpointFacts(interval_ms=60_000))


@pytest.mark.parametrize(
    ("timeout", "expected"), [(1.0, 120_000), (20.0, 120_000), (60.0, 360_000)], ids=["quick", "the edge", "slow"]
)
def test_a_cluster_gets_several_requests_worth_of_time_to_accept(timeout: float, expected: int) -> None:
    context = replace(a_context(), endpoint=Endpoint("http://localhost:8081", timeout=timeout))

    assert accept_ms(context) == expected


@pytest.mark.parametrize(
    ("options", "flink", "facts", "seconds"),
    [
        pytest.param({}, QUICK, NOTHING, 1 + 2 + 4 + 8, id="waits of the scheduler and the outage"),
        pytest.param({}, {}, NOTHING, 30 + 60 + 10 + 8, id="defaults of Flink"),
        pytest.param({}, QUICK, EVERY_MINUTE, 15 + 3 * 60, id="a checkpoint and two that fail"),
        pytest.param(
            {},
            {**QUICK, f"{SCHEDULER}rescale-trigger.max-checkpoint-failures": "0"},
            EVERY_MINUTE,
            15 + 60,
            id="one checkpoint",
        ),
        pytest.param(
            {}, {**QUICK, f"{SCHEDULER}rescale-trigger.max-delay": "20 s"}, EVERY_MINUTE, 15 + 20, id="its own delay"
        ),
        pytest.param(
            {}, {**QUICK, "execution.checkpointing.interval": "10 s"}, NOTHING, 15 + 30, id="the configured interval"
        ),
        pytest.param(
            {},
            {f"{SCHEDULER}scaling-interval.min": "5 s", **dict(list(QUICK.items())[1:])},
            NOTHING,
            5 + 2 + 4 + 8,
            id="the name of Flink 1",
        ),
        pytest.param(
            {}, {**QUICK, f"{SCHEDULER}scaling-interval.max": "90 s"}, NOTHING, 15 + 90, id="forced after a while"
        ),
        pytest.param({}, {**QUICK, f"{SCHEDULER}scaling-interval.max": "NaN"}, NOTHING, 15, id="no duration"),
    ],
)
def test_a_rescale_may_take_what_the_cluster_waits_for(
    options: dict[str, str], flink: dict[str, str], facts: RescaleFacts, seconds: int
) -> None:
    assert allowed_ms(a_context(options, flink), facts, ESTIMATE) == seconds * 1000 + SLACK_MS


def test_a_limit_that_was_set_is_taken_as_it_is() -> None:
    assert allowed_ms(a_context({"rescale.timeout": "7 s"}), EVERY_MINUTE, ESTIMATE) == 7_000


@pytest.mark.parametrize(
    ("options", "interval", "minutes"),
    [({}, 10_000, 10), ({}, 300_000, 15), ({"rollback.observation-window": "2 min"}, 300_000, 2)],
    ids=["ten minutes at least", "three checkpoints", "as set"],
)
def test_the_probation_covers_some_checkpoints(options: dict[str, str], interval: int, minutes: int) -> None:
    facts = RescaleFacts(checkpoints=CheckpointFacts(interval_ms=interval))

    assert observation_ms(a_context(options), facts) == minutes * 60_000


def test_a_job_with_much_state_is_expected_to_be_away_for_longer() -> None:
    record = RescaleRecord(0, 0, {"a": 2}, {"a": 4})
    facts = RescaleFacts(
        checkpoints=CheckpointFacts(state_bytes=10 * 10**9),
        taskmanagers=tuple(TaskManagerFacts(str(number), 4, 0) for number in range(5)),
    )

    # 15 s, 10 s per GB on each TaskManager, and 0.05 s for each of the 4 subtasks.
    assert expected_downtime(NO_SUPERVISION, record, facts).mean == pytest.approx(35.2)
