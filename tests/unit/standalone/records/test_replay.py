"""Behaviour vectors measured from the reference autoscaler, replayed through the code of the daemon."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from behaviour_vectors import read_vectors, replay
from hypothesis import given, settings
from hypothesis import strategies as st

from flink_autoscaler.core.decide.slot_sharing import defer
from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.model.decision import PassPhase, Rescale
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.ports.passes import PassOutcome, RescaleTarget
from flink_autoscaler.standalone.records.codec import PassRecord, decode, encode
from flink_autoscaler.standalone.records.replay import DEFERRED_CODES, differences, replay_pass
from testkit.builders.forked_command import run_command
from testkit.contracts.recorded_passes import ENRICH, SCENARIOS, RecordedJob, rolled_back, scaled_up, without_headroom
from testkit.contracts.vectors import function_difference, scenario_differences

VECTORS = Path(__file__).parents[3] / "fixtures" / "vectors"


@pytest.mark.parametrize("name", ["scenarios_00", "scenarios_01", "scenarios_02", "scenarios_03"])
def test_scenarios_go_as_measured(name: str) -> None:
    vectors = read_vectors(VECTORS / f"{name}.json.gz")

    replayed = replay(vectors, progress=lambda *_: None)

    pairs = zip(vectors["cases"], replayed["cases"], strict=True)
    assert [difference for case, actual in pairs for difference in scenario_differences(case, actual)] == []


def test_single_calls_return_what_was_measured() -> None:
    vectors = read_vectors(VECTORS / "functions.json.gz")

    replayed = replay(vectors, progress=lambda *_: None)

    pairs = zip(vectors["cases"], replayed["cases"], strict=True)
    assert [text for case, actual in pairs if (text := function_difference(case, actual)) is not None] == []


def test_read_vectors_refuses_another_file(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"format": "other"}')

    with pytest.raises(ConfigError, match="not a file of behaviour vectors"):
        read_vectors(tmp_path / "other.json")


def test_read_vectors_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.json\.gz"):
        read_vectors(tmp_path / "missing.json.gz")


def found(record: PassRecord) -> list[str]:
    read = decode(encode(record))
    return list(differences(read, replay_pass(read)))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_pass_of_a_scenario_comes_to_the_same_again(scenario: str) -> None:
    assert [found(record) for record in SCENARIOS[scenario]().records if found(record)] == []


def test_the_scenarios_have_what_they_are_meant_to_show() -> None:
    reasons = {
        reason.code
        for scenario in SCENARIOS.values()
        for record in scenario().records
        for reason in record.outcome.decision.reasons
    }
    phases = {record.outcome.phase for scenario in SCENARIOS.values() for record in scenario().records}

    assert {
        "FORECAST_HIGHER",
        "SCALE_DOWN_DELAYED",
        "QUOTA_REACHED",
        "HEADROOM_REACHED",
        "PAUSED",
        "PAUSED_AFTER_ROLLBACK",
    } <= reasons
    assert phases >= set(PassPhase) - {PassPhase.NOT_READY}
    assert any(record.outcome.target.is_repair for record in rolled_back().records)


@pytest.mark.parametrize("code", sorted(DEFERRED_CODES))
def test_a_decision_that_is_deferred_because_of_other_jobs_is_deferred_again(code: str) -> None:
    record = scaled_up().records[2]
    waits = defer(record.outcome, Reason(code, "others want slots, too"))

    assert found(replace(record, outcome=waits)) == []


def test_what_is_told_behind_a_pass_is_told_again() -> None:
    record = scaled_up().records[2]
    reason = Reason("SLOTS_MISSING", "it needs 2 slots at least to run, 1 is missing")
    event = Event(EventType.WARNING, "SlotsMissing", "The job has too few slots")
    decision = replace(record.outcome.decision, reasons=(*record.outcome.decision.reasons, reason))
    waits = replace(record.outcome, decision=decision, events=(*record.outcome.events, event))

    assert found(replace(record, outcome=waits)) == []


@pytest.mark.parametrize(
    ("change", "place"),
    [
        pytest.param(lambda o: replace(o, phase=PassPhase.NOT_READY), "phase", id="phase"),
        pytest.param(
            lambda o: replace(o, target=RescaleTarget({**o.target.parallelism, ENRICH: 9})),
            f"wanted.{ENRICH}",
            id="wanted",
        ),
        pytest.param(lambda o: replace(o, state=replace(o.state, overrides={})), "state.overrides", id="state"),
        pytest.param(lambda o: replace(o, decision=replace(o.decision, reasons=())), "reasons", id="reasons"),
    ],
)
def test_what_is_not_the_same_is_named(change: object, place: str) -> None:
    record = scaled_up().records[2]

    named = found(replace(record, outcome=change(record.outcome)))  # type: ignore[operator]

    assert named
    assert all(text.startswith(place) for text in named)


def test_other_words_are_the_same_decision() -> None:
    record = without_headroom().records[-1]
    reasons = tuple(replace(reason, text="in other words") for reason in record.outcome.decision.reasons)
    outcome: PassOutcome = replace(record.outcome, decision=replace(record.outcome.decision, reasons=reasons))

    assert found(replace(record, outcome=outcome)) == []


def test_a_record_that_is_not_whole_is_not_replayed() -> None:
    record = replace(scaled_up().records[2], is_complete=False)

    with pytest.raises(StoreError, match="too large"):
        replay_pass(record)


def test_a_pass_that_ended_before_the_cluster_answered_is_not_replayed() -> None:
    record = scaled_up().records[2]

    with pytest.raises(StoreError, match="nothing to replay"):
        replay_pass(replace(record, outcome=replace(record.outcome, inputs=None)))


@settings(max_examples=40)
@given(
    loads=st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 1000.0)), min_size=3, max_size=6),
    interval=st.sampled_from(["0", "1 min", "1 h"]),
)
def test_passes_under_any_load_come_to_the_same_again(loads: list[tuple[float, float]], interval: str) -> None:
    job = RecordedJob({"scale-down.interval": interval})
    for rate, busy_ms in loads:
        job.look_at_load(1, rate=rate, busy_ms=busy_ms)

    assert [found(record) for record in job.records if found(record)] == []


def test_a_rescale_is_read_back_as_one() -> None:
    assert isinstance(decode(encode(scaled_up().records[2])).outcome.decision, Rescale)


VECTOR_FILE = Path(__file__).parents[3] / "fixtures" / "vectors" / "scenarios_00.json.gz"


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(["replay", *arguments], os.environ)


def test_replay_writes_what_happened_in_every_case(tmp_path: Path) -> None:
    with gzip.open(VECTOR_FILE, "rt") as file:
        vectors = json.load(file)
    few = {**vectors, "cases": vectors["cases"][:2]}
    (tmp_path / "few.json").write_text(json.dumps(few))

    result = call("--vectors", str(tmp_path / "few.json"), "--output", str(tmp_path / "out.json"))

    assert (result.returncode, result.stderr) == (0, "")
    replayed = json.loads((tmp_path / "out.json").read_text())
    pairs = zip(few["cases"], replayed["cases"], strict=True)
    assert [text for case, actual in pairs for text in scenario_differences(case, actual)] == []


def test_replay_says_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    result = call("--vectors", str(tmp_path / "missing.json"), "--output", str(tmp_path / "out.json"))

    assert result.returncode == 2
    assert result.stderr.startswith("error: --vectors")
    assert len(result.stderr.splitlines()) == 1
