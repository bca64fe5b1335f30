from dataclasses import dataclass, field

import pytest

from flink_autoscaler.core.model.decision import Hold, PassPhase
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.ports.plugins import AlignmentContext, Plugins
from testkit.builders.core import MINUTE, SINGLE_SOURCE, SINGLE_SOURCE_OPTIONS, JobDriver, a_context, single_source

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

    assert outcome.wanted == {SINGLE_SOURCE: 5}
    request = mode.seen[-1].request
    assert (request.current, request.target, request.partitions) == (4, 7, 24)
    assert mode.seen[-1].job.configuration["limit"] == "7"


def test_a_custom_mode_that_does_not_apply_keeps_the_target() -> None:
    mode = Mode(5, applies=False)

    assert aligned_by(mode).wanted == {SINGLE_SOURCE: 7}
    assert mode.seen == []


def test_the_current_parallelism_means_no_change() -> None:
    assert isinstance(aligned_by(Mode(4)).decision, Hold)


@pytest.mark.parametrize(
    "options",
    [{MODE: "other"}, {f"{MODE}.mine.class": "y.Mode"}, {f"{MODE}.mine.class": ""}],
    ids=["unknown name", "unknown class", "blank class"],
)
def test_balanced_stands_in_for_a_custom_mode_that_is_not_there(options: dict[str, str]) -> None:
    assert aligned_by(Mode(5), options).wanted == {SINGLE_SOURCE: 8}


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
    assert aligned_by(Mode(1)).wanted == {SINGLE_SOURCE: 1}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, 24, id="improved"),
        pytest.param({"compat": "reference"}, 30, id="reference"),
    ],
)
def test_a_custom_mode_cannot_take_a_source_beyond_its_partitions(options: dict[str, str], expected: int) -> None:
    assert aligned_by(Mode(30), options).wanted == {SINGLE_SOURCE: expected}


def test_a_source_of_one_partition_keeps_what_it_has_but_takes_no_more() -> None:
    # Three subtasks of which two would do.
    readings = [single_source(minute, rate=100.0, busy_ms=300.0, parallelism=3, partitions=1) for minute in (1, 2, 3)]
    plugins = Plugins(alignment_modes={"x.Mode": Mode(5)})

    outcome = JobDriver(a_context(OPTIONS), plugins=plugins).run_each_minute(readings)

    assert outcome.wanted == {}


def test_built_in_names_cannot_be_taken() -> None:
    options = {MODE: "OFF", f"{MODE}.OFF.class": "x.Mode"}

    assert aligned_by(Mode(5), options).wanted == {SINGLE_SOURCE: 7}
