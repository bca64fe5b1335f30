"""The tests that every state store has to pass."""

# ruff: noqa: S101, D102 - these are tests: they assert, and their names are their documentation

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import EvaluatedMetric, MetricSample, ScalingMetric, WaitingTime
from flink_autoscaler.core.model.numbers import INFINITY, NAN
from flink_autoscaler.core.model.state import (
    EMPTY_STATE,
    ConfigChanges,
    DelayedRecommendation,
    DelayedVertex,
    HistoryEntry,
    JobState,
    ScalingRecord,
    ScalingSummary,
)
from flink_autoscaler.core.model.supervision import (
    Fingerprint,
    ForeignEdit,
    Mechanism,
    Origin,
    Pause,
    Quarantined,
    RescaleRecord,
    Stage,
    Supervision,
    SupervisionPhase,
)
from flink_autoscaler.core.ports.deployment import AutoScalerStateStore, BatchingStateStore

SOURCE = "a6b7102b8d3e3a9564998c1ffeb5e2b7"
SINK = "00000000000000000000000000000001"
_NOON_MS = 1_704_274_199_123
_LONGEST_KEY = 191
"""Characters of a job key that every store takes: what fits into a unique index of the oldest database supported."""
_THREADS = 8
_ROUNDS = 5


def same_state(left: object, right: object) -> bool:
    """Compare job states, or parts of them, taking NaN as equal to NaN.

    The order of maps does not matter; the types of their keys do, so that a metric's name is not taken for the metric.
    """
    if isinstance(left, float | int) and isinstance(right, float | int):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return _typed(left) == _typed(right) and all(same_state(value, right[key]) for key, value in left.items())
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same_state, left, right))
    if dataclasses.is_dataclass(left):
        return type(left) is type(right) and all(
            same_state(getattr(left, part.name), getattr(right, part.name)) for part in dataclasses.fields(left)
        )
    return left == right


def _typed(mapping: Mapping[object, object]) -> set[tuple[type, object]]:
    return {(type(key), key) for key in mapping}


def full_state(parallelism: int = 8) -> JobState:
    """Make a state in which every field is filled, with unknown and infinite numbers among the metrics."""
    metrics = {
        ScalingMetric.TRUE_PROCESSING_RATE: EvaluatedMetric(NAN, 12.346),
        ScalingMetric.EXPECTED_PROCESSING_RATE: EvaluatedMetric(INFINITY, NAN),
        ScalingMetric.LAG: EvaluatedMetric(-INFINITY, 1.2e9),
    }
    return JobState(
        job_id="4ad5c7b1e0f24c0b8f4b1d6f3b0f5a11",
        samples=_samples(),
        history={
            SOURCE: (HistoryEntry(_NOON_MS, ScalingSummary(1, 2, metrics)),),
            SINK: (
                HistoryEntry(_NOON_MS - 60_000, ScalingSummary(4, 2, {})),
                HistoryEntry(_NOON_MS, ScalingSummary(2, parallelism + 2, metrics)),
            ),
        },
        tracking=(ScalingRecord(_NOON_MS - 60_000, 61_500), ScalingRecord(_NOON_MS)),
        overrides={SOURCE: parallelism, SINK: 1},
        config_changes=ConfigChanges({"taskmanager.memory.process.size": "1 gb"}, ("a.b", "taskmanager.memory.size")),
        delayed={SOURCE: DelayedVertex(_NOON_MS, _recommendations())},
        supervision=_supervision(parallelism),
        policies={
            "hpa": {"vertices": [SINK, SOURCE], "tracks": {"job": {"size": parallelism, "changes": [[1.5, -2]]}}},
            "a plug-in \u00e9": {"seen": None, "is_known": True, "rate": 0.1, "text": "\u4e16"},
        },
        forecast={"sources": {SOURCE: {"trusted": True, "recent": [[0, 1.5]]}}, "is_told": False},
    )


def _samples() -> tuple[MetricSample, ...]:
    rates = {ScalingMetric.LOAD: 0.5, ScalingMetric.OBSERVED_TPR: NAN, ScalingMetric.LAG: INFINITY}
    counters = {ScalingMetric.NUM_RECORDS_IN: 9_007_199_254_740_991.0, ScalingMetric.NUM_RECORDS_OUT: 0.1}
    return (
        MetricSample(_NOON_MS - 10_000, {SOURCE: rates, SINK: {}}, {}, frozenset({SOURCE, SINK})),
        MetricSample(
            _NOON_MS,
            {SOURCE: rates, SINK: counters},
            {ScalingMetric.GC_PRESSURE: 0.01},
            waited={SINK: WaitingTime(1_704_274_199_123.0, 0.5)},
        ),
    )


def _supervision(parallelism: int) -> Supervision:
    before, target = {SOURCE: 2, SINK: 1}, {SOURCE: parallelism, SINK: 1}
    outcome = RescaleRecord(
        decided_ms=_NOON_MS - 60_000,
        since_ms=_NOON_MS - 60_001,
        before=before,
        target=target,
        stage=Stage.REACHED,
        reason="asked for",
        accepted_ms=_NOON_MS - 59_000,
        settled_ms=_NOON_MS - 50_000,
        outage_ms=1_405,
        reached=target,
        state_bytes=1 << 40,
        taskmanagers=3,
        reverted=True,
    )
    fingerprint = Fingerprint("4ad5c7b1e0f24c0b8f4b1d6f3b0f5a11", frozenset({"tm-1", "tm-2"}), 1 << 26, 1 << 30)
    return Supervision(
        current=RescaleRecord(_NOON_MS, _NOON_MS, target, before, Origin.ROLLBACK, Mechanism.REACTIVE_LOSS),
        phase=SupervisionPhase.PAUSED,
        since_ms=_NOON_MS,
        initial=before,
        last_stable=before,
        asked=target,
        seen={SOURCE: (1, parallelism)},
        seen_start_ms=_NOON_MS - 90_000,
        hits={"memory-pressure": 2},
        baseline={"gc": 0.25},
        past=(outcome,),
        rollbacks_ms=(_NOON_MS - 1,),
        pause=Pause("network-memory", "too few buffers", _NOON_MS, fingerprint, _NOON_MS + 1, for_good=True),
        quarantine=(Quarantined(SOURCE, parallelism, "network-memory", _NOON_MS, 1 << 26),),
        edit=ForeignEdit(_NOON_MS, {SINK: (1, 4)}, _NOON_MS + 5, {SINK: (1, 2)}),
        obeyed_ms=_NOON_MS - 7,
        heard_ms=_NOON_MS - 8,
    )


def _recommendations() -> tuple[DelayedRecommendation, ...]:
    return (
        DelayedRecommendation(_NOON_MS, 7, is_outside=True),
        DelayedRecommendation(_NOON_MS + 1, 5, is_outside=False),
    )


_PARTS = [pytest.param(field.name, id=field.name) for field in dataclasses.fields(JobState)]
_KEYS = [
    pytest.param("k", id="one character"),
    pytest.param("cluster/orders by day %_'\"\\`;-- ", id="characters with a meaning to databases"),
    pytest.param(("\u00e9\u4e16\U0001f680\u00df" * _LONGEST_KEY)[:_LONGEST_KEY], id="longest, not ascii"),
]


class AutoScalerStateStoreContract(ABC):
    """Contract of every :class:`AutoScalerStateStore`."""

    @abstractmethod
    def make_store(self) -> AutoScalerStateStore:
        """Make a store without any state. Called once per test."""

    def reopen(self, store: AutoScalerStateStore) -> AutoScalerStateStore | None:
        """Make a second store over what ``store``, which is closed by now, has written; None where nothing remains."""
        del store
        return None

    @pytest.fixture
    def store(self) -> Iterator[AutoScalerStateStore]:
        store = self.make_store()
        yield store
        store.close()

    def test_unknown_job_has_an_empty_state(self, store: AutoScalerStateStore) -> None:
        assert store.load("unknown") == EMPTY_STATE
        assert store.job_keys() == frozenset()

    def test_load_returns_what_was_saved(self, store: AutoScalerStateStore) -> None:
        store.save("job", full_state())

        assert same_state(store.load("job"), full_state())

    @pytest.mark.parametrize("part", _PARTS)
    def test_each_part_is_kept_on_its_own(self, store: AutoScalerStateStore, part: str) -> None:
        state = dataclasses.replace(EMPTY_STATE, **{part: getattr(full_state(), part)})

        store.save("job", state)

        assert same_state(store.load("job"), state)

    @pytest.mark.parametrize("part", _PARTS)
    def test_a_part_that_became_empty_is_forgotten(self, store: AutoScalerStateStore, part: str) -> None:
        emptied = dataclasses.replace(full_state(), **{part: getattr(EMPTY_STATE, part)})
        store.save("job", full_state())

        store.save("job", emptied)

        assert same_state(store.load("job"), emptied)

    @pytest.mark.parametrize("job_key", _KEYS)
    def test_job_keys_are_kept_to_the_letter(self, store: AutoScalerStateStore, job_key: JobKey) -> None:
        store.save(job_key, full_state())

        assert store.job_keys() == {job_key}
        assert same_state(store.load(job_key), full_state())

    def test_job_keys_that_differ_in_case_are_different_jobs(self, store: AutoScalerStateStore) -> None:
        store.save("job", full_state(3))
        store.save("JOB", full_state(4))

        assert same_state(store.load("job"), full_state(3))
        assert store.job_keys() == {"job", "JOB"}

    def test_last_save_wins(self, store: AutoScalerStateStore) -> None:
        store.save("job", full_state(3))

        store.save("job", full_state(4))

        assert same_state(store.load("job"), full_state(4))

    def test_saving_an_equal_state_changes_nothing(self, store: AutoScalerStateStore) -> None:
        store.save("job", full_state())

        store.save("job", full_state())

        assert same_state(store.load("job"), full_state())
        assert store.job_keys() == {"job"}

    def test_delete_forgets_only_that_job(self, store: AutoScalerStateStore) -> None:
        store.save("job", full_state(3))
        store.save("job2", full_state(4))

        store.delete("job")

        assert store.load("job") == EMPTY_STATE
        assert same_state(store.load("job2"), full_state(4))
        assert store.job_keys() == {"job2"}

    def test_deleting_an_unknown_job_does_nothing(self, store: AutoScalerStateStore) -> None:
        store.save("job", full_state())

        store.delete("unknown")

        assert store.job_keys() == {"job"}

    def test_a_deleted_job_can_be_saved_again(self, store: AutoScalerStateStore) -> None:
        store.save("job", full_state(3))
        store.delete("job")

        store.save("job", full_state(4))

        assert same_state(store.load("job"), full_state(4))

    def test_threads_save_different_jobs_at_the_same_time(self, store: AutoScalerStateStore) -> None:
        jobs = [f"job-{number}" for number in range(_THREADS)]

        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(lambda job_key: _save_often(store, job_key), jobs))

        assert store.job_keys() == set(jobs)
        assert all(same_state(store.load(job_key), full_state(_ROUNDS)) for job_key in jobs)

    def test_states_saved_together_are_as_saved_one_by_one(self, store: AutoScalerStateStore) -> None:
        if not isinstance(store, BatchingStateStore):
            pytest.skip("saves one by one")
        states = {f"job {number}": full_state(number) for number in range(1, _THREADS)}
        for job_key in states:
            store.load(job_key)

        saved = store.save_all(states)

        assert saved == states.keys() == store.job_keys()
        assert all(same_state(store.load(job_key), state) for job_key, state in states.items())

    def test_saved_state_survives_a_restart(self) -> None:
        store = self.make_store()
        store.save("job", full_state(3))
        store.save("gone", full_state(4))
        store.delete("gone")
        store.close()

        reopened = self.reopen(store)

        if reopened is None:
            pytest.skip("keeps nothing across restarts")
        with closing(reopened):
            assert same_state(reopened.load("job"), full_state(3))
            assert reopened.job_keys() == {"job"}


def _save_often(store: AutoScalerStateStore, job_key: JobKey) -> None:
    for parallelism in range(1, _ROUNDS + 1):
        store.save(job_key, full_state(parallelism))
        assert same_state(store.load(job_key), full_state(parallelism))
