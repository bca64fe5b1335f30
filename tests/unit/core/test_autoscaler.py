"""An autoscaler that shares its jobs, and one whose store does not take anything."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import pytest

from flink_autoscaler.core.autoscaler import JobAutoScaler, JobPassReport
from flink_autoscaler.core.errors import ConnectError, RealizeError, StoreError
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import JobKey, JobStatus
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.state import EMPTY_STATE, ConfigChanges, JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    Journal,
    RecordingEvents,
    RecordingRealizer,
    RecordingStore,
    ScriptedCollector,
    a_context,
    single_source,
)

CONTEXT = a_context(dict(SINGLE_SOURCE_OPTIONS))


STATE = dataclasses.replace(EMPTY_STATE, overrides={SINGLE_SOURCE: 6})


@dataclass
class Setup:
    """An autoscaler with recording ports around a job that is always busy."""

    journal: Journal = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = RecordingStore(self.journal)
        self.realizer = RecordingRealizer(self.journal)
        self.events = RecordingEvents(self.journal)
        readings = {at * MINUTE: single_source(at, rate=200.0, busy_ms=1000.0) for at in range(1, 6)}
        self.collector = ScriptedCollector(readings, self.journal)
        self.autoscaler = JobAutoScaler(
            store=self.store, realizer=self.realizer, event_handler=self.events, collector=self.collector
        )

    def scale(self, minute: int, context: JobAutoScalerContext = CONTEXT) -> JobPassReport:
        return self.autoscaler.scale(context, minute * MINUTE)

    def fill_window(self) -> None:
        """Do the two passes before the first decision, and forget their calls."""
        self.scale(1)
        self.scale(2)
        self.journal.clear()

    @property
    def told(self) -> list[str]:
        return [event.reason for event in self.events.events]


FIRST_LOADS = ["load"] * 3


"""A state that is not of the job's id is looked for under the keys with and without that, in the first pass."""


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_a_decision_is_recorded_reported_and_then_realized(setup: Setup) -> None:
    setup.fill_window()

    report = setup.scale(3)

    assert isinstance(report.outcome.decision, Rescale)
    assert setup.journal == ["load", "read", "save", "report", "realize_overrides"]
    assert setup.store.states[CONTEXT.job_key].overrides == {SINGLE_SOURCE: 8}
    assert setup.realizer.overrides == [{SINGLE_SOURCE: 8}]
    assert report.realization is not None
    assert report.errors == ()


def test_what_the_collector_learned_is_carried_from_pass_to_pass(setup: Setup) -> None:
    setup.scale(1)

    assert setup.autoscaler.request(CONTEXT, 2 * MINUTE).memory.reports_gc is True


def test_a_job_that_does_not_run_is_not_read_but_its_overrides_are_realized(setup: Setup) -> None:
    setup.store.states[CONTEXT.job_key] = STATE

    setup.scale(1, dataclasses.replace(CONTEXT, status=JobStatus.RESTARTING))

    assert setup.journal == [*FIRST_LOADS, "save", "realize_overrides"]
    assert setup.realizer.overrides == [{SINGLE_SOURCE: 6}]


def test_a_disabled_job_loses_its_state_and_is_not_realized(setup: Setup) -> None:
    setup.store.states[CONTEXT.job_key] = STATE

    setup.scale(1, a_context({"enabled": "false"}))

    assert setup.store.states[CONTEXT.job_key] == EMPTY_STATE
    assert setup.journal == [*FIRST_LOADS, "save"]


def test_config_changes_are_realized_with_memory_tuning_also_when_there_are_none(setup: Setup) -> None:
    setup.scale(1, a_context({**SINGLE_SOURCE_OPTIONS, "memory.tuning.enabled": "true"}))

    assert setup.realizer.configs == [ConfigChanges()]


def test_nothing_is_realized_when_the_state_cannot_be_recorded(setup: Setup) -> None:
    setup.fill_window()
    setup.store.save_error = StoreError("disk full")

    report = setup.scale(3)

    assert report.errors == (setup.store.save_error,)
    assert report.realization is None
    assert setup.realizer.overrides == []
    (event,) = setup.events.events
    assert (event.type, event.reason, event.message) == (EventType.WARNING, "AutoscalerError", "disk full")


def test_the_next_pass_repeats_what_could_not_be_recorded(setup: Setup) -> None:
    setup.fill_window()
    setup.store.save_error = StoreError("disk full")
    setup.scale(3)
    setup.store.save_error = None

    report = setup.scale(4)

    assert isinstance(report.outcome.decision, Rescale)
    assert setup.realizer.overrides == [{SINGLE_SOURCE: 8}]


def test_a_state_that_cannot_be_loaded_stops_before_anything_is_done(setup: Setup) -> None:
    setup.store.load_error = StoreError("no database")

    with pytest.raises(StoreError, match="no database"):
        setup.scale(1)

    assert setup.journal == ["load"]


def test_a_realizer_that_fails_is_told_and_the_decision_stays_recorded(setup: Setup) -> None:
    setup.fill_window()
    setup.realizer.error = RealizeError("no slots")

    report = setup.scale(3)

    assert report.errors == (setup.realizer.error,)
    assert report.realization is None
    assert setup.store.states[CONTEXT.job_key].overrides == {SINGLE_SOURCE: 8}
    (event,) = setup.events.events
    assert (event.type, event.reason, event.message) == (EventType.WARNING, "AutoscalerError", "no slots")


def test_a_realizer_that_failed_is_called_again_in_the_next_pass(setup: Setup) -> None:
    setup.fill_window()
    setup.realizer.error = RealizeError("no slots")
    setup.scale(3)
    setup.realizer.error = None

    setup.scale(4)

    assert setup.realizer.overrides == [{SINGLE_SOURCE: 8}]


def test_config_changes_are_not_realized_after_overrides_failed(setup: Setup) -> None:
    setup.store.states[CONTEXT.job_key] = STATE
    setup.realizer.error = RealizeError("no slots")

    setup.scale(1, a_context({**SINGLE_SOURCE_OPTIONS, "memory.tuning.enabled": "true"}))

    assert "realize_config" not in setup.journal


def test_an_error_of_the_pass_is_told_once_and_overrides_are_realized(setup: Setup) -> None:
    setup.store.states[CONTEXT.job_key] = STATE
    cause = ConnectError("nobody there")
    setup.collector.readings = {MINUTE: JobReading(None, error=cause)}

    report = setup.scale(1)

    assert report.errors == (cause,)
    assert setup.told == ["AutoscalerError"]
    assert setup.realizer.overrides == [{SINGLE_SOURCE: 6}]


def test_an_error_of_the_pass_and_one_of_the_realizer_are_both_told(setup: Setup) -> None:
    setup.store.states[CONTEXT.job_key] = STATE
    setup.collector.readings = {MINUTE: JobReading(None, error=ConnectError("nobody there"))}
    setup.realizer.error = RealizeError("no slots")

    report = setup.scale(1)

    assert [str(error) for error in report.errors] == ["nobody there", "no slots"]
    assert [event.message for event in setup.events.events] == ["nobody there", "no slots"]


def test_an_event_handler_that_fails_does_not_keep_a_decision_from_being_realized(setup: Setup) -> None:
    setup.fill_window()
    setup.events.error = StoreError("event table locked")

    report = setup.scale(3)

    assert setup.realizer.overrides == [{SINGLE_SOURCE: 8}]
    assert setup.events.error in report.errors


def test_an_invalid_configuration_is_told_and_nothing_else_happens(setup: Setup) -> None:
    setup.store.states[CONTEXT.job_key] = STATE

    setup.scale(1, a_context({"utilization.target": "7"}))

    assert setup.told == ["AutoScaler Options Validation"]
    assert setup.store.states[CONTEXT.job_key] == STATE
    assert setup.realizer.overrides == []


def test_cleanup_forgets_state_and_memory(setup: Setup) -> None:
    setup.scale(1)

    errors = setup.autoscaler.cleanup(CONTEXT)

    assert errors == ()
    assert setup.store.states == {}
    assert setup.autoscaler.request(CONTEXT, 2 * MINUTE).memory.reports_gc is None


def test_cleanup_of_an_unknown_job_does_nothing(setup: Setup) -> None:
    assert setup.autoscaler.cleanup(CONTEXT) == ()


def test_cleanup_returns_what_went_wrong(setup: Setup) -> None:
    setup.store.delete_error = StoreError("no database")

    assert setup.autoscaler.cleanup(CONTEXT) == (setup.store.delete_error,)


def test_scale_needs_a_collector() -> None:
    autoscaler = JobAutoScaler(store=RecordingStore(), realizer=RecordingRealizer(), event_handler=RecordingEvents())

    with pytest.raises(ValueError, match="collector"):
        autoscaler.scale(CONTEXT, 0)


KEY = CONTEXT.job_key


class CachingStore(RecordingStore):
    """Keeps a state in memory once it was loaded, while another daemon may write ``states``."""

    def __init__(self) -> None:
        super().__init__()
        self._cached: dict[JobKey, JobState] = {}

    def load(self, job_key: JobKey) -> JobState:
        return self._cached.setdefault(job_key, super().load(job_key))

    def save(self, job_key: JobKey, state: JobState) -> None:
        super().save(job_key, state)
        self._cached[job_key] = state

    def forget(self) -> None:
        self.journal.append("forget")
        self._cached.clear()


class SharedSetup:
    def __init__(self) -> None:
        self.store = CachingStore()
        self.realizer = RecordingRealizer()
        self.events = RecordingEvents()
        readings = {at * MINUTE: single_source(at, rate=200.0, busy_ms=1000.0) for at in range(1, 9)}
        self.autoscaler = JobAutoScaler(
            store=self.store,
            realizer=self.realizer,
            event_handler=self.events,
            collector=ScriptedCollector(readings),
        )


def test_a_daemon_that_looks_on_loads_every_time() -> None:
    setup = SharedSetup()
    first = setup.autoscaler.request(CONTEXT, MINUTE, term=None).state
    setup.store.states[KEY] = JobState("written by the leader")

    second = setup.autoscaler.request(CONTEXT, 2 * MINUTE, term=None).state

    assert (first, second) == (JobState(), JobState("written by the leader"))


def test_who_took_over_from_looking_on_loads_once_more() -> None:
    setup = SharedSetup()
    setup.autoscaler.request(CONTEXT, MINUTE, term=None)
    setup.store.states[KEY] = JobState("the last word of the old leader")

    state = setup.autoscaler.request(CONTEXT, 2 * MINUTE, term=2).state

    assert state == JobState("the last word of the old leader")


def test_who_looks_on_learns_for_the_collector_and_does_nothing_else() -> None:
    setup = SharedSetup()
    setup.autoscaler.scale(CONTEXT, MINUTE)
    setup.store.journal.clear()
    request = setup.autoscaler.request(CONTEXT, 2 * MINUTE, term=None)
    outcome = setup.autoscaler.scale(CONTEXT, 2 * MINUTE).outcome
    setup.store.journal.clear()

    report = setup.autoscaler.observe(request.context, outcome)

    assert setup.store.journal == []
    assert setup.events.events == []
    assert report.realization is None
    assert setup.autoscaler.request(CONTEXT, 3 * MINUTE, term=None).memory == outcome.memory


def test_what_was_not_recorded_under_an_old_term_is_dropped() -> None:
    setup = SharedSetup()
    setup.autoscaler.request(CONTEXT, MINUTE, term=1)
    outcome = setup.autoscaler.scale(CONTEXT, MINUTE).outcome
    setup.store.save_error = StoreError("no database")
    setup.autoscaler.complete(CONTEXT, outcome)
    setup.store.states[KEY] = JobState("written by another")

    state = setup.autoscaler.request(CONTEXT, 2 * MINUTE, term=2).state

    assert state == JobState("written by another")


def test_dropping_a_job_keeps_its_state() -> None:
    setup = SharedSetup()
    setup.autoscaler.scale(CONTEXT, MINUTE)

    setup.autoscaler.drop(KEY)

    assert setup.autoscaler.request(CONTEXT, 2 * MINUTE).memory.reports_gc is None
    assert KEY in setup.store.states
