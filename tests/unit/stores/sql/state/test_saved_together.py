"""States of many jobs in one transaction: what is sent, what is left to be saved one by one, what texts are made of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import pytest
from sqlalchemy import Connection, delete

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import MetricSample, NonBusyTime, ScalingMetric
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.database.failures import LeaseLostError
from flink_autoscaler.stores.sql.state.codec import StateType, encode
from flink_autoscaler.stores.sql.state.store import JOBS_AT_ONCE, SqlStateStore
from flink_autoscaler.stores.sql.state.windows import WindowTexts
from flink_autoscaler.stores.sql.tables import JOBS, STATE
from flink_autoscaler.stores.testing.store_contract import full_state, same_state
from testkit.builders.sql import state_rows
from testkit.servers.databases import counting, every_database

START_MS = 1_704_274_199_123
VERTEX = "a6b7102b8d3e3a9564998c1ffeb5e2b7"
JOB_KEYS = [f"main/job {number}" for number in range(JOBS_AT_ONCE + 5)]


class Gate:
    """A fence that counts who asked, and may keep them out."""

    def __init__(self) -> None:
        self.error: StoreError | None = None
        self.asked = 0

    def check(self, connection: Connection) -> None:
        del connection
        self.asked += 1
        if self.error is not None:
            raise self.error


def sample(number: int) -> MetricSample:
    waited = {VERTEX: NonBusyTime(10.0 * number, 0.0)}
    return MetricSample(START_MS + 10_000 * number, {VERTEX: {ScalingMetric.LOAD: 0.5 + number}}, {}, waited=waited)


def state(*numbers: int) -> JobState:
    return JobState(samples=tuple(map(sample, numbers)), job_id="1")


def after(before: Mapping[JobKey, JobState], number: int) -> dict[JobKey, JobState]:
    """Return the states of the next pass: one sample more, and one less."""
    newest = sample(number)
    return {key: dataclasses.replace(each, samples=(*each.samples[1:], newest)) for key, each in before.items()}


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def store(database: Database, gate: Gate) -> SqlStateStore:
    return SqlStateStore(database, fence=gate)


@pytest.fixture
def known(store: SqlStateStore, gate: Gate) -> dict[JobKey, JobState]:
    """Jobs that are stored, and what is stored of them."""
    states = {job_key: state(1, 2, 3) for job_key in JOB_KEYS}
    for job_key in JOB_KEYS:
        store.load(job_key)
    assert store.save_all(states) == set(JOB_KEYS)
    gate.asked = 0
    return states


@every_database
def test_many_jobs_are_two_transactions_of_two_statements(
    database: Database, store: SqlStateStore, gate: Gate, known: dict[JobKey, JobState]
) -> None:
    later = after(known, 4)

    with counting(database) as sent:
        saved = store.save_all(later)

    assert saved == set(JOB_KEYS)
    assert gate.asked == 2
    assert [text.split()[:2] for text in sent.texts] == [["UPDATE", STATE.name], ["UPDATE", JOBS.name]] * 2
    fresh = SqlStateStore(database)
    assert all(same_state(fresh.load(job_key), later[job_key]) for job_key in (JOB_KEYS[0], JOB_KEYS[-1]))


def test_what_is_stored_already_sends_nothing(store: SqlStateStore, gate: Gate, known: dict[JobKey, JobState]) -> None:
    assert store.save_all(known) == set(JOB_KEYS)
    assert gate.asked == 0


def test_states_that_were_never_read_are_left_to_be_saved_one_by_one(database: Database, store: SqlStateStore) -> None:
    assert store.save_all({"main/a": state(1)}) == frozenset()
    assert state_rows(database) == {}


def test_jobs_with_more_to_write_than_a_replacement_are_saved_with_the_others(
    database: Database, store: SqlStateStore, known: dict[JobKey, JobState]
) -> None:
    store.load("main/new")
    first, second, *_ = JOB_KEYS
    states = {first: full_state(), second: EMPTY_STATE, "main/new": state(1), JOB_KEYS[2]: state(2, 3, 4)}

    saved = store.save_all(states)

    fresh = SqlStateStore(database)
    assert saved == set(states)
    assert all(same_state(fresh.load(job_key), each) for job_key, each in states.items())


@every_database
def test_a_transaction_that_meets_a_removed_row_is_undone_and_leaves_its_jobs_to_be_saved_one_by_one(
    database: Database, store: SqlStateStore, known: dict[JobKey, JobState]
) -> None:
    with database.transaction() as connection:
        connection.execute(delete(STATE).where(STATE.c.job_key == JOB_KEYS[3]))
    before, later = state_rows(database), after(known, 4)

    saved = store.save_all(later)
    untouched = {key: text for key, text in state_rows(database).items() if key[0] in JOB_KEYS[:JOBS_AT_ONCE]}
    for job_key in later.keys() - saved:
        store.save(job_key, later[job_key])

    assert saved == set(JOB_KEYS[JOBS_AT_ONCE:])
    assert untouched == {key: text for key, text in before.items() if key[0] in JOB_KEYS[:JOBS_AT_ONCE]}
    fresh = SqlStateStore(database)
    assert all(same_state(fresh.load(job_key), later[job_key]) for job_key in JOB_KEYS[:5])


def test_without_the_lease_nothing_is_written(
    database: Database, store: SqlStateStore, gate: Gate, known: dict[JobKey, JobState]
) -> None:
    before, gate.error = state_rows(database), LeaseLostError("another daemon leads")

    assert store.save_all(after(known, 4)) == frozenset()
    assert state_rows(database) == before


def test_a_database_that_is_away_is_asked_once_and_looked_at_before_the_next_save(
    database: Database, store: SqlStateStore, gate: Gate, known: dict[JobKey, JobState]
) -> None:
    gate.error, later = StoreError("away"), after(known, 4)

    saved = store.save_all(later)
    asked, gate.error = gate.asked, None
    with counting(database) as sent:
        store.save(JOB_KEYS[0], later[JOB_KEYS[0]])

    assert (saved, asked) == (frozenset(), 1)
    assert sent.count("SELECT", STATE) == 1
    assert same_state(SqlStateStore(database).load(JOB_KEYS[0]), later[JOB_KEYS[0]])


def test_a_state_that_cannot_be_written_leaves_the_others_alone(
    database: Database, store: SqlStateStore, known: dict[JobKey, JobState]
) -> None:
    later = after(known, 4)
    later[JOB_KEYS[1]] = dataclasses.replace(later[JOB_KEYS[1]], overrides=5)  # type: ignore[arg-type]

    assert store.save_all(later) == {*JOB_KEYS} - {JOB_KEYS[1]}
    assert same_state(SqlStateStore(database).load(JOB_KEYS[0]), later[JOB_KEYS[0]])


@pytest.mark.parametrize("most_whole", [0, 1, 1 << 20], ids=["none whole", "the first one whole", "all whole"])
@pytest.mark.parametrize("most_kept", [0, 300, 1 << 20], ids=["nothing kept", "some kept", "all kept"])
def test_texts_of_windows_are_those_of_the_codec_whatever_is_kept(most_kept: int, most_whole: int) -> None:
    texts = WindowTexts(most_kept=most_kept, most_whole=most_whole)
    window: tuple[MetricSample, ...] = ()

    for number in range(8):
        window = (*window[-3:], sample(number))
        for job_key in ("a", "b"):
            assert texts.write(job_key, window) == encode(StateType.COLLECTED_METRICS, window)
        assert texts.characters <= most_kept


@pytest.mark.parametrize("most_whole", [0, 1 << 20], ids=["numbers kept", "texts kept"])
def test_samples_of_a_window_may_differ_in_their_metrics(most_whole: int) -> None:
    texts = WindowTexts(most_whole=most_whole)
    told: list[dict[ScalingMetric, float]] = [
        {},
        {ScalingMetric.LOAD: math.nan},
        {ScalingMetric.LOAD: 0.5, ScalingMetric.LAG: math.inf},
    ]
    window = [
        MetricSample(1000 * number, {"100 %s": told[number % 3], 'a "b"': told[number % 2]}, told[number % 3])
        for number in range(9)
    ]

    for last in range(1, len(window) + 1):
        samples = tuple(window[max(0, last - 5) : last])
        assert texts.write("a", samples) == encode(StateType.COLLECTED_METRICS, samples)


def test_numbers_alone_take_less_than_half_of_the_texts() -> None:
    whole, numbers = WindowTexts(), WindowTexts(most_whole=0)
    vertices = {f"{number:032x}": dict.fromkeys(list(ScalingMetric)[:5], 12345.678) for number in range(10)}
    for texts in (whole, numbers):
        texts.write("a", tuple(MetricSample(1000 * number, vertices, {}) for number in range(16)))

    assert numbers.characters < whole.characters / 2


def test_texts_of_a_job_go_with_it() -> None:
    texts = WindowTexts()
    texts.write("a", (sample(1),))
    texts.write("b", (sample(1),))

    texts.forget("a")
    half = texts.characters
    texts.clear()

    assert half > 0
    assert texts.characters == 0
