"""An autoscaler that shares its jobs, and one whose store does not take anything."""

from __future__ import annotations

from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.state import JobState
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE_OPTIONS,
    RecordingEvents,
    RecordingRealizer,
    RecordingStore,
    ScriptedCollector,
    a_context,
    single_source,
)

CONTEXT = a_context(dict(SINGLE_SOURCE_OPTIONS))
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


class Setup:
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
    setup = Setup()
    first = setup.autoscaler.request(CONTEXT, MINUTE, term=None).state
    setup.store.states[KEY] = JobState("written by the leader")

    second = setup.autoscaler.request(CONTEXT, 2 * MINUTE, term=None).state

    assert (first, second) == (JobState(), JobState("written by the leader"))


def test_who_took_over_from_looking_on_loads_once_more() -> None:
    setup = Setup()
    setup.autoscaler.request(CONTEXT, MINUTE, term=None)
    setup.store.states[KEY] = JobState("the last word of the old leader")

    state = setup.autoscaler.request(CONTEXT, 2 * MINUTE, term=2).state

    assert state == JobState("the last word of the old leader")


def test_who_looks_on_learns_for_the_collector_and_does_nothing_else() -> None:
    setup = Setup()
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
    setup = Setup()
    setup.autoscaler.request(CONTEXT, MINUTE, term=1)
    outcome = setup.autoscaler.scale(CONTEXT, MINUTE).outcome
    setup.store.save_error = StoreError("no database")
    setup.autoscaler.complete(CONTEXT, outcome)
    setup.store.states[KEY] = JobState("written by another")

    state = setup.autoscaler.request(CONTEXT, 2 * MINUTE, term=2).state

    assert state == JobState("written by another")


def test_dropping_a_job_keeps_its_state() -> None:
    setup = Setup()
    setup.autoscaler.scale(CONTEXT, MINUTE)

    setup.autoscaler.drop(KEY)

    assert setup.autoscaler.request(CONTEXT, 2 * MINUTE).memory.reports_gc is None
    assert KEY in setup.store.states
