"""Signs that a job does not survive its rescale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, JobException, RescaleFacts
from flink_autoscaler.core.model.supervision import RescaleRecord
from flink_autoscaler.core.options.safety import MEMORY_PRESSURE
from flink_autoscaler.core.ports.plugins import CheckInput
from flink_autoscaler.core.rescale.error_checkers import (
    CHECKERS,
    CRASH_LOOP,
    GC,
    HEAP,
    NETWORK_MEMORY,
    NO_RESOURCES,
    RESTARTS,
)
from testkit.builders.core import a_context

SINCE = 10_000_000
MINUTE = 60_000
BUFFERS = "java.io.IOException: Insufficient number of network buffers: required 65, but only 12 available"
RESOURCES = "org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException: no slots"
RESCALE = RescaleRecord(SINCE, SINCE, {"a": 2}, {"a": 4}, accepted_ms=SINCE)


def an_input(
    *exceptions: JobException, after: int = 0, options: Mapping[str, str] | None = None, **facts: Any
) -> CheckInput:
    """A job that does not run; ``after`` milliseconds after its rescale was accepted."""
    told = RescaleFacts(**{"all_running": False, "exceptions": exceptions, **facts})
    return CheckInput(a_context(options), RESCALE, told, SINCE + after)


def check(name: str, given: CheckInput) -> str | None:
    return CHECKERS[name].check(given)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(an_input(), id="no exception"),
        pytest.param(an_input(exceptions=None), id="exceptions not read"),
        pytest.param(an_input(JobException(SINCE, BUFFERS)), id="as old as the rescale"),
        pytest.param(an_input(JobException(SINCE - MINUTE, BUFFERS)), id="older than the rescale"),
        pytest.param(an_input(JobException(SINCE + 1, "another bug")), id="another message"),
        pytest.param(an_input(JobException(SINCE + 1, BUFFERS.lower())), id="other case"),
        pytest.param(an_input(JobException(SINCE + 1, BUFFERS), all_running=True), id="the job runs again"),
    ],
)
def test_network_memory_is_not_blamed(given: CheckInput) -> None:
    assert check(NETWORK_MEMORY, given) is None


@pytest.mark.parametrize(
    ("after", "options", "hit"),
    [
        pytest.param(6 * MINUTE + 1, {}, True, id="waited in vain"),
        pytest.param(6 * MINUTE, {}, False, id="may still get its slots"),
    ],
)
def test_missing_slots_count_after_the_time_that_the_job_waits(after: int, options: dict[str, str], hit: bool) -> None:
    given = an_input(JobException(SINCE + 1, RESOURCES), after=after, options=options)

    assert (check(NO_RESOURCES, given) is not None) is hit


@pytest.mark.parametrize(
    ("wait", "after", "hit"),
    [
        pytest.param("30 s", 91_000, True, id="a short wait is over"),
        pytest.param("30 s", 90_000, False, id="a short wait is not over"),
        pytest.param("-1 ms", 7 * MINUTE, True, id="for ever counts as the default"),
    ],
)
def test_the_clusters_own_wait_for_slots_counts(wait: str, after: int, hit: bool) -> None:
    flink = {"jobmanager.adaptive-scheduler.submission.resource-wait-timeout": wait}
    message = "Could not acquire the minimum required resources."

    given = replace(an_input(JobException(SINCE + 1, message), after=after), context=a_context(flink=flink))

    assert (check(NO_RESOURCES, given) is not None) is hit


ON = {"rollback.memory.enabled": "true"}
PRESSED = {"rollback.memory.gc-threshold": "0.3", "rollback.memory.heap-threshold": "0.9"}


@pytest.mark.parametrize(
    ("options", "pressure", "baseline", "evidence"),
    [
        pytest.param(PRESSED, {GC: 0.4}, {GC: 0.1}, "gc 0.40 is above 0.3, before the rescale it was 0.10", id="gc"),
        pytest.param(
            PRESSED, {HEAP: 0.95}, {HEAP: 0.5}, "heap 0.95 is above 0.9, before the rescale it was 0.50", id="heap"
        ),
        pytest.param(PRESSED, {GC: 0.3}, {GC: 0.1}, None, id="at the threshold"),
        pytest.param(PRESSED, {GC: 0.4}, {GC: 0.35}, None, id="before it was as bad"),
        pytest.param(PRESSED, {GC: 0.4}, {}, None, id="not known how it was before"),
        pytest.param(PRESSED, {}, {GC: 0.1}, None, id="not known how it is"),
        pytest.param({}, {GC: 1.0, HEAP: 1.0}, {GC: 0.1, HEAP: 0.1}, None, id="no threshold set"),
        pytest.param(
            {"memory.gc-pressure.threshold": "0.3"},
            {GC: 0.4},
            {GC: 0.1},
            "gc 0.40 is above 0.3, before the rescale it was 0.10",
            id="inherits the threshold of the pause",
        ),
        pytest.param(
            ON, {GC: 0.4}, {GC: 0.1}, "gc 0.40 is above 0.3, before the rescale it was 0.10", id="one option, gc"
        ),
        pytest.param(
            ON,
            {HEAP: 0.97},
            {HEAP: 0.5},
            "heap 0.97 is above 0.95, before the rescale it was 0.50",
            id="one option, heap",
        ),
        pytest.param(ON, {GC: 0.2, HEAP: 0.9}, {GC: 0.1, HEAP: 0.5}, None, id="one option, and all is well"),
        pytest.param(
            {**ON, "rollback.memory.heap-threshold": "1.0"}, {HEAP: 0.97}, {HEAP: 0.5}, None, id="heap left out by hand"
        ),
        pytest.param(
            {**ON, "memory.heap-usage.threshold": "0.8"},
            {HEAP: 0.85},
            {HEAP: 0.5},
            "heap 0.85 is above 0.8, before the rescale it was 0.50",
            id="one option, with the threshold of the pause",
        ),
    ],
)
def test_memory_pressure_that_a_rescale_brought(
    options: dict[str, str], pressure: dict[str, float], baseline: dict[str, float], evidence: str | None
) -> None:
    given = replace(an_input(options=options, all_running=True), pressure=pressure, baseline=baseline)

    assert check(MEMORY_PRESSURE, given) == evidence


@pytest.mark.parametrize(
    ("before", "target", "hit"),
    [
        ({"a": 2}, {"a": 4}, True),
        ({"a": 4, "b": 4}, {"a": 2, "b": 2}, True),
        ({"a": 4, "b": 4}, {"a": 4, "b": 2}, False),
    ],
    ids=["more subtasks", "fewer slots", "as many slots with fewer subtasks"],
)
def test_memory_pressure_is_blamed_only_on_denser_taskmanagers(
    before: dict[str, int], target: dict[str, int], hit: bool
) -> None:
    rescale = replace(RESCALE, before=before, target=target)
    given = replace(an_input(options=PRESSED), pressure={GC: 0.4}, baseline={GC: 0.1}, rescale=rescale)

    assert (check(MEMORY_PRESSURE, given) is not None) is hit


OLD_CRASHES = tuple(JobException(SINCE - at * MINUTE, "bug") for at in (1, 2))


@pytest.mark.parametrize(
    ("given", "hit"),
    [
        pytest.param(an_input(restarts=15), True, id="five restarts"),
        pytest.param(an_input(restarts=14), False, id="four restarts"),
        pytest.param(an_input(restarts=None), False, id="restarts not known"),
        pytest.param(an_input(restarts=15, after=11 * MINUTE), False, id="the window is over"),
        pytest.param(an_input(OLD_CRASHES[0], restarts=15), True, id="one crash before does not excuse it"),
        pytest.param(an_input(*OLD_CRASHES, restarts=15), False, id="it crashed before as well"),
        pytest.param(an_input(restarts=15, checkpoints=CheckpointFacts(SINCE + 1)), False, id="a checkpoint since"),
        pytest.param(an_input(restarts=15, checkpoints=CheckpointFacts(SINCE - 1)), True, id="no checkpoint since"),
        pytest.param(an_input(restarts=3), False, id="the counter began anew"),
    ],
)
def test_a_crash_loop_that_began_with_the_rescale(given: CheckInput, hit: bool) -> None:
    assert (check(CRASH_LOOP, replace(given, baseline={RESTARTS: 10.0})) is not None) is hit


def test_a_crash_loop_needs_the_restarts_from_before() -> None:
    assert check(CRASH_LOOP, an_input(restarts=50)) is None


def test_only_memory_pressure_has_to_last() -> None:
    assert [name for name, checker in CHECKERS.items() if checker.is_gradual] == [MEMORY_PRESSURE]
