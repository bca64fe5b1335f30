"""Lower bounds that somebody else set: a decision goes no lower than these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import MINUTE, SINGLE_SOURCE, SINGLE_SOURCE_OPTIONS, JobDriver, a_context, single_source

SUPERVISED = dict(SINGLE_SOURCE_OPTIONS)


def read(minute: int, requirements: Mapping[str, tuple[int, int]] | None, *, parallelism: int = 4) -> JobReading:
    """Read a source that is busy for a quarter of its time: at a target of 0.5 it needs half of what it has."""
    reading = single_source(minute, rate=50.0, busy_ms=250.0, parallelism=parallelism)
    return replace(reading, facts=RescaleFacts(requirements=requirements))


def outcome_of(
    requirements: Mapping[str, tuple[int, int]] | None, options: dict[str, str] | None = None
) -> PassOutcome:
    driver = JobDriver(a_context({**SUPERVISED, **(options or {})}))
    return driver.run_each_minute(read(minute, requirements) for minute in (1, 2, 3))


@pytest.mark.parametrize(
    ("requirements", "options", "expected"),
    [
        pytest.param({SINGLE_SOURCE: (1, 4)}, {}, 2, id="none"),
        pytest.param({SINGLE_SOURCE: (3, 4)}, {}, 3, id="above what is needed"),
        pytest.param({SINGLE_SOURCE: (2, 4)}, {}, 2, id="met"),
        pytest.param(None, {}, 2, id="not known"),
        pytest.param({SINGLE_SOURCE: (3, 4)}, {"rescale.lower-bound": "target"}, 2, id="it may be our own"),
        pytest.param({SINGLE_SOURCE: (3, 4)}, {"compat": "reference"}, 2, id="the reference"),
        pytest.param({SINGLE_SOURCE: (-3, 4)}, {}, 2, id="negative"),
        pytest.param({SINGLE_SOURCE: (9, 4)}, {}, 2, id="above its upper bound"),
        pytest.param({"f" * 32: (3, 4)}, {}, 2, id="of another vertex"),
    ],
)
def test_a_scale_down_stops_at_the_lower_bound_that_somebody_set(
    requirements: Mapping[str, tuple[int, int]] | None, options: dict[str, str], expected: int
) -> None:
    assert outcome_of(requirements, options).target.parallelism == {SINGLE_SOURCE: expected}


def test_what_was_decided_before_the_bounds_were_known_is_wanted_within_them() -> None:
    driver = JobDriver(a_context(SUPERVISED))
    first = driver.run_each_minute(read(minute, None) for minute in (1, 2, 3))

    second = driver.run(4 * MINUTE, read(4, {SINGLE_SOURCE: (3, 4)}))

    assert first.target.parallelism == {SINGLE_SOURCE: 2}
    assert second.target.parallelism == {SINGLE_SOURCE: 3}
    current = second.state.supervision.current
    assert current is not None
    assert dict(current.target) == {SINGLE_SOURCE: 3}
