from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.decide.alignment import (
    AlignmentMode,
    AlignmentSettings,
    align_balanced,
    align_evenly_spread,
    keep_target,
    legacy_evenly_spread,
    legacy_maximize_utilisation,
    reachable_sizes,
    search,
    within_increase,
)
from flink_autoscaler.core.model.decision import Hold, PassPhase
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.ports.plugins import AlignmentContext, AlignmentRequest, Plugins
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_context,
    options_with,
    single_source,
    vertex_id,
)

HASH = frozenset({ShipStrategy.HASH})


def request(current: int, target: int, partitions: int, max_parallelism: int, upper: int = 200) -> AlignmentRequest:
    return AlignmentRequest(vertex_id(1), current, target, partitions, max_parallelism, 1, upper, HASH)


ALL_MODES = [keep_target, align_balanced, align_evenly_spread, legacy_evenly_spread, legacy_maximize_utilisation]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, None),
        ({"scaling.parallelism-alignment.mode": "OFF"}, None),
        ({"scaling.parallelism-alignment.mode": "off"}, "off"),
    ],
    ids=["default", "built in", "any other text"],
)
def test_any_other_name_is_a_custom_mode(options: dict[str, str], name: str | None) -> None:
    assert AlignmentSettings.of(options_with(options)).custom == name


@pytest.mark.parametrize("mode", ALL_MODES)
@given(data=st.data())
def test_alignment_never_moves_against_the_target_and_never_beyond_the_limits(
    mode: AlignmentMode, data: st.DataObject
) -> None:
    current = data.draw(st.integers(1, 150))
    max_parallelism = data.draw(st.integers(current, 300))
    upper = data.draw(st.integers(current, 300))
    target = data.draw(st.integers(1, min(max_parallelism, upper)).filter(lambda t: t != current))
    partitions = data.draw(st.integers(0, 300))

    result = mode(request(current, target, partitions, max_parallelism, upper)).parallelism

    low, high = (current, min(max_parallelism, upper)) if target > current else (1, current)
    assert low <= result <= high


@pytest.mark.parametrize("mode", ["BALANCED", "EVENLY_SPREAD", "legacy EVENLY_SPREAD", "legacy MAXIMIZE_UTILISATION"])
@given(data=st.data())
def test_what_alignment_can_come_to_is_all_that_it_comes_to(mode: str, data: st.DataObject) -> None:
    current, upper = data.draw(st.integers(1, 90)), data.draw(st.integers(1, 200))
    max_parallelism = data.draw(st.integers(current, 200))
    asked = replace(request(current, 1, data.draw(st.integers(0, 200)), max_parallelism, max(current, upper)), lower=1)
    key = "key-group.partitions.adjust.mode" if mode.startswith("legacy") else "parallelism-alignment.mode"
    options = options_with({f"scaling.{key}": mode.removeprefix("legacy ")})

    found = reachable_sizes(asked, options)

    every = [target for target in range(1, max(asked.bound, current) + 1) if target != current]
    _, mode_of, most = AlignmentSettings.of(options)
    aligned = {within_increase(t, mode_of(replace(asked, target=t)), most).parallelism for t in every}
    assert found == tuple(sorted({current, *aligned}))


@pytest.mark.parametrize("mode", ["OFF", "of my own"])
def test_of_some_modes_it_is_not_known(mode: str) -> None:
    assert (
        reachable_sizes(request(4, 5, 0, 128, 128), options_with({"scaling.parallelism-alignment.mode": mode})) is None
    )


@given(
    target=st.integers(1, 300), groups=st.integers(1, 300), current=st.integers(1, 300), accepts_less_load=st.booleans()
)
def test_the_search_finds_what_trying_one_by_one_finds(
    target: int, groups: int, current: int, accepts_less_load: bool
) -> None:
    asked = request(current, target, 0, groups, 300)
    end = asked.bound if asked.is_scale_up else min(current, asked.bound)
    share = groups // target
    tried = (
        each for each in range(target, end + 1) if groups % each == 0 or (accepts_less_load and groups // each < share)
    )

    assert search(asked, accepts_less_load=accepts_less_load) == next(tried, None)


MODE = "scaling.parallelism-alignment.mode"
OPTIONS = {**SINGLE_SOURCE_OPTIONS, MODE: "mine", f"{MODE}.mine.class": "x.Mode", f"{MODE}.mine.limit": "7"}


@dataclass
class Mode:
    """Aligns everything to one parallelism, or fails."""

    parallelism: object
    applies: bool = True
    error: Exception | None = None
    seen: list[AlignmentContext] = field(default_factory=list)

    def is_applicable(self, context: AlignmentContext) -> bool:
        return self.applies and context.metrics[ScalingMetric.TRUE_PROCESSING_RATE].average > 0

    def align(self, context: AlignmentContext) -> int:
        self.seen.append(context)
        if self.error is not None:
            raise self.error
        return self.parallelism  # type: ignore[return-value]  # a foreign mode may return anything


def aligned_by(mode: Mode, options: dict[str, str] | None = None) -> PassOutcome:
    """Run a source of 24 partitions that wants to go from 4 to 7, which BALANCED makes 8."""
    driver = JobDriver(a_context({**OPTIONS, **(options or {})}), plugins=Plugins(alignment_modes={"x.Mode": mode}))
    for minute in (1, 2, 3):
        reading = single_source(minute, rate=200.0, busy_ms=870.0, partitions=24)
        outcome = driver.run(minute * MINUTE, reading)
    return outcome


def test_a_custom_mode_has_the_last_word_on_the_target() -> None:
    mode = Mode(5)

    outcome = aligned_by(mode)

    assert outcome.target.parallelism == {SINGLE_SOURCE: 5}
    request = mode.seen[-1].request
    assert (request.current, request.target, request.partitions) == (4, 7, 24)
    assert mode.seen[-1].job.configuration["limit"] == "7"


def test_a_custom_mode_that_does_not_apply_keeps_the_target() -> None:
    mode = Mode(5, applies=False)

    assert aligned_by(mode).target.parallelism == {SINGLE_SOURCE: 7}
    assert mode.seen == []


def test_the_current_parallelism_means_no_change() -> None:
    assert isinstance(aligned_by(Mode(4)).decision, Hold)


@pytest.mark.parametrize(
    "options",
    [{MODE: "other"}, {f"{MODE}.mine.class": "y.Mode"}, {f"{MODE}.mine.class": ""}],
    ids=["unknown name", "unknown class", "blank class"],
)
def test_balanced_stands_in_for_a_custom_mode_that_is_not_there(options: dict[str, str]) -> None:
    assert aligned_by(Mode(5), options).target.parallelism == {SINGLE_SOURCE: 8}


def test_a_custom_mode_that_fails_fails_the_pass() -> None:
    outcome = aligned_by(Mode(5, error=RuntimeError("boom")))

    assert outcome.phase is PassPhase.ERROR
    assert str(outcome.error) == "alignment mode 'mine' failed: RuntimeError: boom"


@pytest.mark.parametrize("parallelism", [0, -3, "5"])
def test_a_custom_mode_has_to_ask_for_a_parallelism(parallelism: object) -> None:
    outcome = aligned_by(Mode(parallelism))

    assert outcome.phase is PassPhase.ERROR
    assert str(outcome.error) == f"alignment mode 'mine' returned {parallelism!r}, not a parallelism"


def test_a_custom_mode_may_ask_for_a_single_subtask() -> None:
    assert aligned_by(Mode(1)).target.parallelism == {SINGLE_SOURCE: 1}


def test_a_source_of_one_partition_keeps_what_it_has_but_takes_no_more() -> None:
    # Three subtasks of which two would do.
    readings = [single_source(minute, rate=100.0, busy_ms=300.0, parallelism=3, partitions=1) for minute in (1, 2, 3)]
    plugins = Plugins(alignment_modes={"x.Mode": Mode(5)})

    outcome = JobDriver(a_context(OPTIONS), plugins=plugins).run_each_minute(readings)

    assert outcome.target.parallelism == {}


def test_built_in_names_cannot_be_taken() -> None:
    options = {MODE: "OFF", f"{MODE}.OFF.class": "x.Mode"}

    assert aligned_by(Mode(5), options).target.parallelism == {SINGLE_SOURCE: 7}
