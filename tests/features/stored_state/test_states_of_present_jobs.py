"""Whatever lists a cluster gives, whole ones and such with gaps: the state of a job that is there is never deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.errors import AutoscalerError, ConnectError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass, PassDependencies
from flink_autoscaler.standalone.daemon.job_state_cleaner import JobStateCleaner
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.ha.leadership import Leadership
from flink_autoscaler.stores.heap import HeapTombstones
from testkit.builders.cluster_passes import ScriptedEngine, a_listed_job
from testkit.builders.core import RecordingEvents, RecordingRealizer, RecordingStore

KEYS = ("c/a", "c/b", "c/c", "c/d")
RETENTION = 100.0
PROBLEM = ConnectError("no answer")


@dataclass(frozen=True)
class Step:
    """What is true of a cluster when a pass begins, and how much of it the pass gets to see.

    Attributes:
        there: Jobs that the cluster has.
        hidden: Those of them that are in a part that cannot be listed.
        unreadable: Those of them whose context cannot be built.
        left_out: Those of them that are not to be looked at.
        has_empty_gap: Whether a part without jobs cannot be listed.
        seconds: Since the pass before.
        leader: Which of the daemons acts.
        is_store_up: Whether the store answers.
        is_reachable: Whether there is a list at all.
        is_reloaded: Whether the configuration of the cluster has changed before the pass.
    """

    there: frozenset[JobKey]
    hidden: frozenset[JobKey] = frozenset()
    unreadable: frozenset[JobKey] = frozenset()
    left_out: frozenset[JobKey] = frozenset()
    has_empty_gap: bool = False
    seconds: float = 1.0
    leader: int = 0
    is_store_up: bool = True
    is_reachable: bool = True
    is_reloaded: bool = False

    def job_list(self) -> JobList:
        """Return what a fetcher sees."""
        if not self.is_reachable:
            raise PROBLEM
        seen = self.there - self.hidden
        unreadable, left_out = seen & self.unreadable, seen & self.left_out - self.unreadable
        errors: dict[JobKey, AutoscalerError] = dict.fromkeys(unreadable, PROBLEM)
        has_gap = self.has_empty_gap or bool(self.there & self.hidden)
        jobs = tuple(a_listed_job(key) for key in sorted(seen - unreadable - left_out))
        return JobList(jobs, errors, left_out, {"application_1_1": PROBLEM} if has_gap else {})


class ExactTombstones(HeapTombstones):
    """Knows when each job was seen last, as a database does."""

    def __init__(self, world: World) -> None:
        super().__init__(clock=lambda: world.now)
        self._world = world
        self._seen_at: dict[JobKey, float] = {}

    def unseen_jobs(self, cluster: str, present: Collection[JobKey], seconds: float) -> frozenset[JobKey]:
        self._seen_at |= dict.fromkeys(present, self._world.now)
        absent = self._world.store.states.keys() - set(present)
        return frozenset(key for key in absent if self._world.now - self._seen_at.setdefault(key, 0.0) >= seconds)


@dataclass
class Daemon(Leadership):
    """One of two daemons that share a cluster (a leadership and a fetcher)."""

    number: int
    world: World
    passes: ClusterPass = field(init=False)

    def term(self) -> int | None:
        return self.world.term if self.world.step.leader == self.number else None

    def bound_to_term(self, term: int) -> AbstractContextManager[None]:
        return nullcontext()

    def is_leader(self, seconds: float = 0.0) -> bool:
        return self.term() is not None

    def fetch(self) -> JobList:
        return self.world.step.job_list()

    def close(self) -> None:
        pass


class World:
    """A cluster, two daemons that manage it one at a time, and what they keep."""

    def __init__(self, grace: float, parts: ExitStack) -> None:
        self.now = 0.0
        self.term = 1
        self.step = Step(frozenset())
        self.store = RecordingStore()
        self.tombstones = ExactTombstones(self)
        self._grace = grace
        self._parts = parts
        self._daemons = [Daemon(number, self) for number in range(2)]
        for daemon in self._daemons:
            daemon.passes = self._passes(daemon)

    def take(self, step: Step) -> list[PassReport]:
        """Let all daemons do a pass, the leader first."""
        self.now += step.seconds
        self.term += step.leader != self.step.leader
        self.step = step
        self.store.states.update({key: JobState(key) for key in step.there})
        order = sorted(self._daemons, key=lambda daemon: daemon.number != step.leader)
        return [self._pass(daemon) for daemon in order]

    def _pass(self, daemon: Daemon) -> PassReport:
        if self.step.is_reloaded:
            before, daemon.passes = daemon.passes, self._passes(daemon)
            daemon.passes.take_over(before)
        return daemon.passes.run()

    def _passes(self, daemon: Daemon) -> ClusterPass:
        autoscaler = JobAutoScaler(store=self.store, realizer=RecordingRealizer(), event_handler=RecordingEvents())
        vanished = JobStateCleaner(
            "c",
            autoscaler=autoscaler,
            tombstones=self.tombstones,
            grace=self._grace,
            retention=RETENTION,
            is_ready=lambda: self.step.is_store_up,
            clock=lambda: self.now,
        )
        passes = ClusterPass(
            "c",
            fetcher=daemon,
            engine=ScriptedEngine(),
            autoscaler=autoscaler,
            parallelism=1,
            deadline=10.0,
            dependencies=PassDependencies(daemon, vanished, lambda: 1_000),
        )
        self._parts.callback(passes.close)
        return passes


@contextmanager
def a_world(grace: float) -> Iterator[World]:
    with ExitStack() as parts:
        yield World(grace, parts)


some_keys = st.frozensets(st.sampled_from(KEYS))
steps = st.lists(
    st.builds(
        Step,
        there=some_keys,
        hidden=st.just(frozenset[JobKey]()) | some_keys,
        unreadable=st.just(frozenset[JobKey]()) | some_keys,
        left_out=st.just(frozenset[JobKey]()) | some_keys,
        has_empty_gap=st.sampled_from([False, False, True]),
        seconds=st.sampled_from([1.0, 10.0, 200.0]),
        leader=st.sampled_from([0, 0, 1]),
        is_store_up=st.sampled_from([True, True, False]),
        is_reachable=st.sampled_from([True, True, False]),
        is_reloaded=st.sampled_from([False, False, True]),
    ),
    max_size=12,
)


@given(history=steps, grace=st.sampled_from([0.0, 15.0]))
@settings(max_examples=150)
def test_state_of_a_job_that_is_there_is_never_deleted(history: list[Step], grace: float) -> None:
    with a_world(grace) as world:
        for step in history:
            reports = world.take(step)

            assert step.there <= world.store.states.keys()
            assert not any(step.there.intersection(report.deleted_states) for report in reports)


@given(history=steps)
@settings(max_examples=100)
def test_nothing_is_gone_or_deleted_while_the_list_has_gaps(history: list[Step]) -> None:
    with a_world(0.0) as world:
        for step in history:
            reports = world.take(step)

            if step.has_empty_gap or step.there & step.hidden:
                assert [(report.removed_jobs, report.deleted_states) for report in reports] == [((), ())] * 2


@given(history=steps, there=some_keys, grace=st.sampled_from([0.0, 15.0]))
@settings(max_examples=100)
def test_states_of_others_are_deleted_in_the_end(history: list[Step], there: frozenset[JobKey], grace: float) -> None:
    with a_world(grace) as world:
        for step in history:
            world.take(step)

        for _ in range(4):
            world.take(Step(there, seconds=2 * RETENTION))

        assert world.store.states.keys() == there
