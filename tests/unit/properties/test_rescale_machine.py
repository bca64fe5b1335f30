"""Rescales of a simulated job while everything that can go wrong does: cluster, network, daemon, and people."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from flink_autoscaler.core.model.orders import AuditStamp, Orders, PauseOrder, Pin
from flink_autoscaler.core.model.supervision import SupervisionPhase as RescalePhase
from testkit.scenarios.rescale_model import (
    MAP,
    OPTIONS,
    OTHER,
    SOURCE,
    Daemon,
    FactsFate,
    LossyNetwork,
    PutFate,
    SimulatedCluster,
)
from testkit.scenarios.rescale_model.promises import BOUND_TO_SETTLE, Promises

STEPS = int(os.environ.get("MODEL_STEPS", "3000"))
"""Least number of steps: passes over the job, and things that happen between them."""

RULES_PER_EXAMPLE = 30
STEPS_PER_EXAMPLE = 150
"""About as many come of the rules of one example."""

FIGURES: Counter[str] = Counter()

facts_fates = st.one_of(st.just(FactsFate.FINE), st.sampled_from(FactsFate))
put_fates = st.one_of(st.just(PutFate.FINE), st.sampled_from(PutFate))


GAPS = st.lists(st.sampled_from([5, 10, 10, 30]), min_size=1, max_size=5)
LOADS = st.sampled_from([10.0, 50.0, 120.0, 180.0, 260.0, 400.0])

CHOICES = {
    "rollback.target": st.sampled_from(["last-stable", "last", "initial"]),
    "rescale.lower-bound": st.sampled_from(["one", "current", "target"]),
    "rollback.pause": st.sampled_from(["until-cluster-restart", "5 min"]),
    "rollback.max-per-day": st.sampled_from(["1", "2", "3"]),
    "rescale.budget.per-day": st.sampled_from(["0", "4"]),
    "rollback.checkers": st.just("network-memory;no-resources;crash-loop"),
}

DISTURBANCES: Mapping[str, Callable[[SimulatedCluster], None]] = {
    "crash": lambda cluster: cluster.crash("java.lang.RuntimeException: a bug of the job"),
    "crash loop": lambda cluster: setattr(cluster, "crashes_until", cluster.now + 120),
    "TaskManager lost": SimulatedCluster.lose_taskmanager,
    "TaskManager added": SimulatedCluster.add_taskmanager,
    "TaskManagers restarted": SimulatedCluster.restart_taskmanagers,
    "TaskManagers restarted with more memory": lambda cluster: cluster.restart_taskmanagers(memory_factor=1.5),
    "JobManager fails over": lambda cluster: cluster.fail_over(forgets=False),
    "JobManager forgets": lambda cluster: cluster.fail_over(forgets=True),
    "job cancelled": SimulatedCluster.cancel,
    "clock goes on": lambda cluster: cluster.set_clock(90_000),
    "clock goes back": lambda cluster: cluster.set_clock(-90_000),
    "clock goes back far": lambda cluster: cluster.set_clock(-600_000),
    "clock trembles": lambda cluster: cluster.set_clock(-2_000),
}

ORDERS: Mapping[str, Callable[[Orders, AuditStamp, int], Orders]] = {
    "resume": lambda orders, signed, _: replace(orders, resumed_ms=signed.at_ms),
    "roll back": lambda orders, signed, _: replace(orders, rollback=signed),
    "reset": lambda orders, signed, _: replace(orders, reset=signed),
    "pin": lambda orders, signed, number: replace(orders, pins=(Pin(MAP, number, signed),)),
    "unpin": lambda orders, signed, _: replace(orders, pins=()),
    "pause": lambda orders, signed, _: replace(orders, pause=None if orders.pause else PauseOrder(signed)),
    "dry run": lambda orders, signed, _: replace(orders, dry_run=None if orders.dry_run else signed),
    "withdraw": lambda orders, signed, _: Orders(),
}


class RescaleMachine(RuleBasedStateMachine):
    """One job on one cluster, managed by one daemon."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    @initialize(
        cluster=st.builds(
            SimulatedCluster,
            fatal=st.sampled_from([3, 4, 6, 99]),
            startup=st.sampled_from([2, 5, 20]),
            attempts=st.sampled_from([None, None, None, 3]),
            skew_ms=st.sampled_from([0, 0, 300_000, -300_000]),
            load=LOADS,
        ),
        options=st.fixed_dictionaries(CHOICES),
    )
    def begin(self, cluster: SimulatedCluster, options: dict[str, str]) -> None:
        self.cluster = cluster
        self.network = LossyNetwork(cluster)
        self.daemon = Daemon(self.network, {**OPTIONS, **options})
        self.promises = Promises(self.daemon)
        self.network.tick(30)
        self._look([10] * 6)

    @property
    def now_ms(self) -> int:
        return self.daemon.now_ms

    # Passes.

    @rule(gaps=GAPS, facts=facts_fates, put=put_fates)
    def look(self, gaps: list[int], facts: FactsFate, put: PutFate) -> None:
        """Do some passes, all with the same bad luck."""
        self._look(gaps, facts, put)
        self._count("passes in bad weather")

    @rule(load=LOADS, count=st.integers(3, 12))
    def look_well(self, load: float, count: int) -> None:
        """Do some passes with another load and nothing lost; what is fatal shows within these."""
        self.cluster.load = load
        self._look([10] * count)
        self._count("passes in good weather")

    @rule(gaps=GAPS)
    def be_killed_in_a_pass(self, gaps: list[int]) -> None:
        self.network.tick(10)
        self.promises.look(is_killed=True)
        self._look(gaps)
        self._count("daemon killed")

    @precondition(lambda self: self.steps % 4 == 0)
    @rule(seconds=st.sampled_from([60, 300, 1200, 4000]))
    def be_away(self, seconds: int) -> None:
        self.network.tick(seconds)
        self.daemon.restart()
        self._count("daemon away")

    @precondition(lambda self: self.steps % 7 == 0)
    @rule()
    def settle(self) -> None:
        """From wherever the machine is it comes to rest."""
        self._settle()
        self._count("settled")

    # The job and its cluster.

    @rule(what=st.sampled_from(sorted(DISTURBANCES)), gaps=GAPS, facts=facts_fates, put=put_fates)
    def disturb(self, what: str, gaps: list[int], facts: FactsFate, put: PutFate) -> None:
        """Let something happen to the cluster, and look."""
        DISTURBANCES[what](self.cluster)
        if what == "JobManager forgets":
            self._is_clusters_own()
        if what == "JobManager fails over":
            self.promises.fail_over()
        self._look(gaps, facts, put)
        self._count(what)

    @precondition(lambda self: self.cluster.status.is_terminal or self.steps % 9 == 0)
    @rule(
        default=st.sampled_from([{SOURCE: 1, MAP: 1}, {SOURCE: 2, MAP: 2}, {SOURCE: 1, OTHER: 1}, {SOURCE: 1, MAP: 2}])
    )
    def submit(self, default: dict[str, int]) -> None:
        self.cluster.submit(default)
        self._is_clusters_own()
        self._count("submitted")

    # People.

    @rule(source=st.integers(1, 6), upper=st.integers(1, 6), least=st.integers(1, 2), gaps=GAPS, facts=facts_fates)
    def edit_requirements(self, source: int, upper: int, least: int, gaps: list[int], facts: FactsFate) -> None:
        wanted = {SOURCE: source, MAP: upper, OTHER: upper}
        self.promises.edits({v: (min(least, wanted[v]), wanted[v]) for v in self.cluster.requirements})
        self._look(gaps, facts)
        self._count("edited by others")

    @rule(what=st.sampled_from(sorted(ORDERS)), parallelism=st.integers(1, 20), gaps=GAPS, put=put_fates)
    def order(self, what: str, parallelism: int, gaps: list[int], put: PutFate) -> None:
        """Let a person order something, and look."""
        signed = AuditStamp("ann", "a test", self.now_ms)
        self.daemon.orders = ORDERS[what](self.daemon.orders, signed, parallelism)
        self.promises.act()
        if what == "reset":  # who has a rescale forgotten that is under way manages it alone
            self.network.author = "people"
            self.network.on_its_way.clear()
        self._look(gaps, put=put)
        self._count(what)

    def _is_clusters_own(self) -> None:
        self.network.author = "cluster"
        self.promises.forget_edit()

    def _look(self, gaps: list[int], facts: FactsFate = FactsFate.FINE, put: PutFate = PutFate.FINE) -> None:
        for gap in gaps:
            self.network.tick(gap)
            self.network.facts_fate, self.network.put_fate = facts, put
            self.promises.look()

    def _count(self, what: str) -> None:
        self.steps += 1
        FIGURES["events"] += 1
        FIGURES[what] += 1

    def _be_fine(self) -> None:
        self.network.facts_fate, self.network.put_fate = FactsFate.FINE, PutFate.FINE

    def _settle(self) -> None:
        self._be_fine()
        self.cluster.crashes_until = 0
        orders = replace(self.daemon.orders, dry_run=None)
        # Nothing new is decided meanwhile: with the hasty options of the model the load alone could go on for ever.
        self.daemon.orders = replace(orders, pause=PauseOrder(AuditStamp("ann", "quiet", self.now_ms)))
        while self.cluster.slots < 12:
            self.cluster.add_taskmanager()
        passes = self.promises.settle(self.network.tick)
        self.daemon.orders = orders
        FIGURES["longest settling"] = max(FIGURES["longest settling"], passes)

    def teardown(self) -> None:
        if not hasattr(self, "daemon"):
            return
        self._settle()
        assert self.daemon.state.supervision.phase in (RescalePhase.STABLE, RescalePhase.PAUSED)
        FIGURES["sequences"] += 1
        FIGURES["passes"] += self.daemon.passes
        FIGURES["bad rescales undone"] += self.promises.undone
        FIGURES["passes that respected an edit"] += self.promises.respected
        FIGURES.update(f"event {reason}" for reason in self.daemon.reasons)


@pytest.fixture
def _no_log_lines() -> Iterator[None]:
    """The figures should be all that is printed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("_no_log_lines")
def test_rescales_survive_whatever_happens() -> None:
    FIGURES.clear()

    while FIGURES["passes"] + FIGURES["events"] < STEPS:
        left = STEPS - FIGURES["passes"] - FIGURES["events"]
        run_state_machine_as_test(RescaleMachine, settings=_settings(max(1, left // STEPS_PER_EXAMPLE)))

    steps = FIGURES["passes"] + FIGURES["events"]
    print(f"\n{steps} steps, {FIGURES['passes']} of them passes; at rest within {FIGURES['longest settling']}")
    print(", ".join(f"{what}: {count}" for what, count in sorted(FIGURES.items())))
    assert FIGURES["longest settling"] < BOUND_TO_SETTLE


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=RULES_PER_EXAMPLE,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
