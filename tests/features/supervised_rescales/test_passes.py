"""Supervision in whole passes: a daemon with the real core and realizer manages a job of a simulated cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.cycle.overrides import effective_overrides
from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.orders import NO_ORDERS, AuditStamp, Orders, PauseOrder, Pin
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import (
    ForeignEdit,
    Origin,
    Quarantined,
    RescaleRecord,
    Stage,
    Supervision,
    SupervisionPhase,
)
from flink_autoscaler.core.observe.required_facts import RequiredFacts, required_facts
from flink_autoscaler.core.ports.plugins import CheckInput, Plugins
from testkit.builders.core import a_context, a_request
from testkit.scenarios.rescale_model import (
    MAP,
    OPTIONS,
    SOURCE,
    Daemon,
    FactsFate,
    LossyNetwork,
    PutFate,
    SimulatedCluster,
)

ONE, THREE = {SOURCE: 1, MAP: 1}, {SOURCE: 3, MAP: 3}


def a_daemon(options: dict[str, str] | None = None, *, load: float = 150.0, **cluster: object) -> Daemon:
    """A job that wants parallelism 3 of both vertices where the load is 150 records/s."""
    network = LossyNetwork(SimulatedCluster(load=load, **cluster))  # type: ignore[arg-type]
    network.tick(30)
    return Daemon(network, {**OPTIONS, **(options or {})})


def look(daemon: Daemon, passes: int = 1, *, gap: int = 10) -> JobPassReport:
    for _ in range(passes):
        daemon.network.tick(gap)
        report = daemon.look()
    return report


def signed(daemon: Daemon) -> AuditStamp:
    return AuditStamp("ann", "a test", daemon.now_ms)


def codes(report: JobPassReport) -> set[str]:
    return {reason.code for reason in report.outcome.decision.reasons}


def look_until_rescaled(daemon: Daemon) -> JobPassReport:
    """Do passes until something was decided."""
    for _ in range(20):
        report = look(daemon)
        if isinstance(report.outcome.decision, Rescale):
            return report
    raise AssertionError("nothing was decided")


def test_a_rescale_is_followed_from_the_decision_to_the_end_of_its_probation() -> None:
    daemon = a_daemon()

    look_until_rescaled(daemon)
    requested = daemon.state.supervision.current
    look(daemon, 70)

    assert requested is not None
    assert (requested.stage, requested.before, requested.target) == (Stage.REQUESTED, ONE, THREE)
    assert daemon.state.supervision.phase is SupervisionPhase.STABLE
    assert daemon.state.supervision.last_stable == THREE
    assert daemon.reasons == ["Scaling", "RescaleReached", "RescaleConfirmed"]


def test_times_of_two_executions_are_no_outage() -> None:
    daemon = a_daemon(startup=2)

    look_until_rescaled(daemon)
    daemon.network.tick(3)
    daemon.network.facts_fate = FactsFate.STALE
    daemon.look()
    look(daemon, 6)

    assert daemon.state.supervision.current is not None
    assert daemon.state.supervision.current.outage_ms in (None, 2_000)


class FailingChecker:
    """A checker that fails when it is asked, or, once it has found something, when its kind is."""

    def __init__(self, error: BaseException, *, finds: bool) -> None:
        self._error = error
        self._finds = finds

    @property
    def is_gradual(self) -> bool:
        raise self._error

    def check(self, given: CheckInput) -> str | None:
        if self._finds:
            return "something"
        raise self._error


@pytest.mark.parametrize("finds", [False, True], ids=["check", "is_gradual"])
@pytest.mark.parametrize("error", [RuntimeError("boom"), SystemExit("boom")], ids=repr)
def test_a_checker_that_fails_is_told_once_and_the_samples_stay(error: BaseException, finds: bool) -> None:
    daemon = a_daemon({"rollback.checkers": "mine"})
    daemon.plugins = Plugins(error_checkers={"mine": FailingChecker(error, finds=finds)})
    look_until_rescaled(daemon)
    look(daemon, 3)

    report = look(daemon)

    assert report.outcome.observation.sample is not None
    assert daemon.state.samples[-1] == report.outcome.observation.sample
    (event,) = (each for each in report.outcome.events if "boom" in each.message)
    assert event.interval is not None


@pytest.mark.parametrize("skew_ms", [-600_000, 0, 60_000], ids=["behind", "in step", "ahead"])
def test_a_bad_rescale_is_undone_in_the_next_pass_whatever_the_clock_of_the_jobmanager(skew_ms: int) -> None:
    daemon = a_daemon(fatal=3, skew_ms=skew_ms)

    look_until_rescaled(daemon)
    report = look(daemon)

    assert report.outcome.target.is_repair
    assert daemon.network.cluster.upper == ONE
    look(daemon, 3)
    assert daemon.state.supervision.phase is SupervisionPhase.PAUSED
    assert daemon.reasons[:4] == ["Scaling", "RollbackStarted", "Scaling", "RolledBack"]


def test_a_bad_rescale_is_undone_although_the_clock_of_the_jobmanager_was_set_back_meanwhile() -> None:
    daemon = a_daemon()
    look(daemon)
    daemon.orders = Orders(pins=(Pin("vertex 2", 3, signed(daemon)),))
    look(daemon, 3)
    daemon.network.cluster.set_clock(-600_000)
    look(daemon)
    daemon.network.cluster.fatal = 3
    daemon.network.cluster.crash("TaskManager lost")

    look(daemon, 2)

    assert "RollbackStarted" in daemon.reasons


def test_a_rollback_that_does_not_arrive_is_repeated_although_the_job_does_not_run() -> None:
    daemon = a_daemon(fatal=3)
    look_until_rescaled(daemon)
    for fate in (PutFate.LOST, PutFate.LOST):
        daemon.network.tick(10)
        daemon.network.put_fate = fate
        daemon.look()

    look(daemon)

    assert daemon.network.cluster.upper == ONE


def test_a_job_that_runs_only_for_want_of_slots_is_not_yet_rolled_back() -> None:
    daemon = a_daemon(fatal=3)
    look_until_rescaled(daemon)
    daemon.network.tick(10)
    daemon.network.put_fate = PutFate.LOST
    daemon.look()
    daemon.network.cluster.taskmanagers = {"tm-small": 1}

    daemon.network.tick(10)
    daemon.network.facts_fate = FactsFate.BLIND
    daemon.look()

    assert daemon.state.supervision.phase is SupervisionPhase.ROLLING_BACK


def test_what_a_job_died_of_is_not_tried_again_after_it_was_submitted_anew() -> None:
    daemon = a_daemon(fatal=3, attempts=0)
    look_until_rescaled(daemon)
    look(daemon)
    assert daemon.network.cluster.status is JobStatus.FAILED
    daemon.network.cluster.submit()

    look(daemon, 10)

    assert "RollbackImpossible" in daemon.reasons
    assert {entry.vertex_id for entry in daemon.state.supervision.quarantine} == {SOURCE, MAP}
    assert max(daemon.network.cluster.upper.values()) == 2


def a_rescaled_daemon(**options: str) -> Daemon:
    """A job that runs with parallelism 3, and that the daemon has seen so."""
    daemon = a_daemon(options)
    look_until_rescaled(daemon)
    look(daemon, 12)
    assert dict(daemon.network.cluster.execution.vector) == THREE
    return daemon


OTHERS = {SOURCE: (1, 2), MAP: (1, 5)}


def test_somebody_elses_change_is_left_alone_although_it_could_not_be_seen() -> None:
    daemon = a_rescaled_daemon()
    daemon.network.cluster.take(OTHERS)
    for fate in (FactsFate.BLIND, FactsFate.OLD, FactsFate.LOST, FactsFate.PARTS, FactsFate.FINE):
        daemon.network.facts_fate = fate
        look(daemon)

    assert daemon.network.cluster.requirements == OTHERS


def test_somebody_elses_change_between_decision_and_next_pass_is_respected() -> None:
    daemon = a_rescaled_daemon()
    daemon.network.cluster.load = 400.0
    look_until_rescaled(daemon)
    daemon.network.cluster.take(OTHERS)

    look(daemon, 3)

    assert daemon.network.cluster.requirements == OTHERS
    assert "RequirementsEdited" in daemon.reasons


def test_nothing_is_decided_after_somebody_elses_change_although_a_fail_over_made_the_cluster_forget_it() -> None:
    daemon = a_rescaled_daemon()
    daemon.network.cluster.take(OTHERS)
    look(daemon, 2)
    daemon.network.cluster.fail_over(forgets=True)

    report = look(daemon, 12)

    assert codes(report) == {"EDITED_BY_OTHERS"}
    assert daemon.network.cluster.upper == ONE


def test_what_a_job_dies_of_is_not_judged_while_it_cannot_be_seen_who_asked_for_it() -> None:
    daemon = a_daemon(fatal=5)
    look_until_rescaled(daemon)
    look(daemon, 6)
    daemon.network.cluster.take({SOURCE: (1, 5), MAP: (1, 5)})
    for _ in range(4):
        daemon.network.facts_fate = FactsFate.BLIND
        look(daemon)

    look(daemon)

    assert "RollbackStarted" not in daemon.reasons
    assert "RequirementsEdited" in daemon.reasons


def test_somebody_elses_change_ends_a_rollback() -> None:
    daemon = a_daemon(fatal=3)
    look_until_rescaled(daemon)
    look(daemon)
    before = daemon.state.supervision.phase
    daemon.network.cluster.take({SOURCE: (1, 2), MAP: (1, 2)})

    look(daemon, 3)

    assert (before, daemon.state.supervision.phase) == (SupervisionPhase.ROLLING_BACK, SupervisionPhase.STABLE)
    assert daemon.network.cluster.upper == {SOURCE: 2, MAP: 2}


def test_an_answer_that_comes_late_is_not_taken_for_somebody_elses_change() -> None:
    daemon = a_rescaled_daemon()
    daemon.network.cluster.load = 400.0
    look_until_rescaled(daemon)
    look(daemon)

    daemon.network.facts_fate = FactsFate.OLD
    look(daemon)
    look(daemon, 3)

    assert "RequirementsEdited" not in daemon.reasons


@pytest.mark.parametrize("switch", ["option", "order"])
def test_a_dry_run_reports_what_it_would_do_and_wants_nothing(switch: str) -> None:
    daemon = a_daemon({"dry-run": "true"} if switch == "option" else {})
    if switch == "order":
        daemon.orders = Orders(dry_run=signed(daemon))

    report = look(daemon, 8)

    assert "SCALING_DISABLED" in codes(report)
    assert report.outcome.report is not None
    assert not report.outcome.report.is_executed
    assert {vertex.new for vertex in report.outcome.report.vertices.values()} == {3}
    assert report.outcome.target.parallelism == {}
    assert daemon.network.cluster.upper == ONE
    assert daemon.state.supervision.current is None


def test_a_pin_holds_while_the_metrics_of_a_job_are_not_there_yet() -> None:
    daemon = a_daemon()
    look_until_rescaled(daemon)
    daemon.orders = Orders(pins=(Pin(MAP, 2, signed(daemon)),))
    look(daemon, 3)
    sent = 0

    for _ in range(30):
        look(daemon)
        sent += len(daemon.network.sent)

    assert daemon.network.cluster.upper == {SOURCE: 3, MAP: 2}
    assert sent == 0


@pytest.mark.parametrize(
    ("is_pinned", "is_repair", "wanted"),
    [(True, False, {}), (False, False, THREE), (True, True, THREE)],
    ids=["pinned", "not pinned", "pinned, but a failed rescale is undone"],
)
def test_without_details_of_the_job_nothing_is_wanted_that_could_go_against_a_pin(
    is_pinned: bool, is_repair: bool, wanted: dict[str, int]
) -> None:
    daemon = a_daemon()
    orders = Orders(pins=(Pin(MAP, 2, signed(daemon)),)) if is_pinned else NO_ORDERS
    request = replace(a_request(a_context(dict(OPTIONS))), orders=orders)
    supervision = look(daemon).outcome.state.supervision

    assert effective_overrides(THREE, supervision, request, JobReading(None), is_repair=is_repair) == wanted


def test_a_pin_never_exceeds_what_the_vertex_can_have() -> None:
    daemon = a_daemon()
    daemon.orders = Orders(pins=(Pin(MAP, 500, signed(daemon)),))

    report = look(daemon)

    assert report.outcome.target.parallelism == {MAP: 16}


def test_a_pin_that_the_job_does_not_survive_is_undone_and_not_tried_again() -> None:
    daemon = a_daemon(fatal=4, load=10.0)
    daemon.orders = Orders(pins=(Pin(MAP, 8, signed(daemon)),))

    look(daemon, 12)
    daemon.orders = replace(daemon.orders, resumed_ms=daemon.now_ms + 1)
    look(daemon, 12)

    assert daemon.state.supervision.rollbacks_ms != ()
    assert not daemon.network.cluster.is_fatal
    assert daemon.network.cluster.status is JobStatus.RUNNING


def test_a_pin_that_could_not_be_asked_for_after_a_reset_is_followed_once_it_can() -> None:
    daemon = a_daemon(fatal=4, load=10.0, startup=20)
    look(daemon, 3)
    daemon.orders = Orders(pins=(Pin(MAP, 8, signed(daemon)),))
    look(daemon, 6, gap=5)
    assert daemon.state.supervision.phase is SupervisionPhase.ROLLING_BACK
    daemon.orders = replace(daemon.orders, reset=signed(daemon))
    look(daemon, gap=2)
    assert daemon.context().status is JobStatus.RESTARTING

    look(daemon, gap=20)
    current = daemon.state.supervision.current
    look(daemon, 12)

    assert current is not None
    assert (current.before, current.target) == (ONE, {SOURCE: 1, MAP: 8})
    assert not daemon.network.cluster.is_fatal
    assert daemon.network.cluster.status is JobStatus.RUNNING


def test_a_paused_job_is_not_scaled_and_says_by_whom() -> None:
    daemon = a_daemon()
    daemon.orders = Orders(pause=PauseOrder(signed(daemon)))

    report = look(daemon, 8)

    assert "PAUSED" in codes(report)
    assert daemon.network.cluster.upper == ONE


@pytest.mark.parametrize(
    ("bound", "least"), [("one", {}), ("current", ONE), ("target", THREE)], ids=["one", "current", "target"]
)
def test_the_least_parallelism_that_the_cluster_may_give(bound: str, least: dict[str, int]) -> None:
    daemon = a_daemon({"rescale.lower-bound": bound})

    report = look_until_rescaled(daemon)

    assert report.outcome.target.min_parallelism == least
    expected = {vertex: (least.get(vertex, 1), 3) for vertex in THREE}
    assert daemon.network.cluster.requirements == expected


def test_nothing_is_wanted_for_vertices_that_a_new_graph_does_not_have() -> None:
    daemon = a_rescaled_daemon()
    other = "f" * 32
    request = a_request(a_context(dict(OPTIONS)), state=daemon.state)
    supervision = look(daemon).outcome.state.supervision
    reading: JobReading = daemon.network.read(request)

    assert effective_overrides({SOURCE: 3, other: 4}, supervision, request, reading, is_repair=False) == {SOURCE: 3}


@pytest.mark.parametrize(
    ("max_parallelism", "wanted"),
    [
        pytest.param(1, 3, id="less than it runs with: no truth"),
        pytest.param(3, 3, id="what it runs with"),
        pytest.param(0, 3, id="not known"),
        pytest.param(128, 3, id="more"),
    ],
)
def test_what_runs_is_not_taken_back_for_a_max_parallelism_that_cannot_be(max_parallelism: int, wanted: int) -> None:
    daemon = a_rescaled_daemon()
    request = a_request(a_context(dict(OPTIONS)), state=daemon.state)
    supervision = look(daemon).outcome.state.supervision
    details = daemon.network.read(request).details
    assert details is not None
    lying = replace(details, vertices=tuple(replace(v, max_parallelism=max_parallelism) for v in details.vertices))

    assert effective_overrides({SOURCE: 3}, supervision, request, JobReading(lying), is_repair=False) == {
        SOURCE: wanted
    }


def test_a_rescale_that_a_resubmitted_job_inherits_is_followed_as_well() -> None:
    daemon = a_rescaled_daemon()
    daemon.network.cluster.submit()

    look(daemon, 2)

    current = daemon.state.supervision.current
    assert current is not None
    assert (current.origin, current.target, current.stage.is_final) == (Origin.OPERATOR, THREE, False)


def test_a_request_that_arrives_after_it_was_given_up_is_taken_back() -> None:
    daemon = a_daemon()
    daemon.network.delay = 150
    look(daemon, 2)
    daemon.network.put_fate = PutFate.LATE
    look_until_rescaled(daemon)
    daemon.network.cluster.load = 50.0
    # The cluster has not got it within two minutes: every other attempt is lost, too.
    for _ in range(13):
        daemon.network.put_fate = PutFate.LOST
        look(daemon)
    assert daemon.state.supervision.current is not None
    assert daemon.state.supervision.current.stage is Stage.REFUSED

    look(daemon, 4)

    assert "RequirementsEdited" not in daemon.reasons
    assert daemon.network.cluster.upper == ONE


def test_a_person_who_wants_a_rollback_of_a_rollback_is_told_that_there_is_nothing_to_undo() -> None:
    daemon = a_daemon(fatal=3)
    look_until_rescaled(daemon)
    look(daemon, 4)
    assert daemon.state.supervision.phase is SupervisionPhase.PAUSED
    daemon.orders = Orders(rollback=signed(daemon))

    look(daemon)

    assert daemon.reasons[-1] == "RollbackImpossible"
    assert daemon.network.cluster.upper == ONE


def test_what_failed_is_no_goal_of_a_rollback_even_where_it_was_fine_once() -> None:
    daemon = a_rescaled_daemon()
    look(daemon, 70)
    assert daemon.state.supervision.last_stable == THREE
    daemon.network.cluster.load = 10.0
    look_until_rescaled(daemon)
    look(daemon, 6)
    daemon.network.cluster.fatal = 3
    daemon.network.cluster.load = 150.0
    look_until_rescaled(daemon)

    look(daemon, 6)

    assert not daemon.network.cluster.is_fatal
    assert "RolledBack" in daemon.reasons


def test_a_fingerprint_that_could_not_be_taken_is_taken_later() -> None:
    daemon = a_daemon(fatal=3)
    look_until_rescaled(daemon)
    look(daemon)
    for _ in range(3):
        daemon.network.facts_fate = FactsFate.PARTS
        look(daemon)
    assert daemon.state.supervision.phase is SupervisionPhase.PAUSED
    look(daemon)

    daemon.network.cluster.restart_taskmanagers()
    look(daemon, 3)

    assert "ScalingResumed" in daemon.reasons


RECORD = RescaleRecord(1, 1, ONE, THREE)


@pytest.mark.parametrize(
    ("state", "orders", "wanted"),
    [
        pytest.param(JobState(), NO_ORDERS, RequiredFacts.NOTHING, id="nothing was decided yet"),
        pytest.param(JobState(overrides=THREE), NO_ORDERS, RequiredFacts.REQUIREMENTS, id="something was decided"),
        pytest.param(
            JobState(supervision=Supervision(seen={MAP: (1, 2)}, edit=ForeignEdit(1, {}, 2))),
            NO_ORDERS,
            RequiredFacts.REQUIREMENTS,
            id="somebody else's change is respected",
        ),
        pytest.param(
            JobState(supervision=Supervision(current=RECORD)), NO_ORDERS, RequiredFacts.EVERYTHING, id="under way"
        ),
        pytest.param(
            JobState(supervision=Supervision(phase=SupervisionPhase.PAUSED)),
            NO_ORDERS,
            RequiredFacts.EVERYTHING,
            id="paused",
        ),
        pytest.param(
            JobState(supervision=Supervision(quarantine=(Quarantined(MAP, 3, "x", 1),))),
            NO_ORDERS,
            RequiredFacts.EVERYTHING,
            id="the end of a quarantine is waited for",
        ),
        pytest.param(
            JobState(), Orders(pins=(Pin(MAP, 2, AuditStamp("ann", "", 1)),)), RequiredFacts.REQUIREMENTS, id="pinned"
        ),
        pytest.param(JobState(), Orders(rollback=AuditStamp("ann", "", 1)), RequiredFacts.EVERYTHING, id="an order"),
        pytest.param(
            JobState(supervision=Supervision(obeyed_ms=1)),
            Orders(rollback=AuditStamp("ann", "", 1)),
            RequiredFacts.NOTHING,
            id="an order that was carried out",
        ),
    ],
)
def test_what_is_asked_about_a_job(state: JobState, orders: Orders, wanted: RequiredFacts) -> None:
    request = replace(a_request(a_context(), state=state), orders=orders)

    assert required_facts(request) is wanted


def test_the_reference_asks_nothing_and_follows_nothing() -> None:
    daemon = a_daemon({"compat": "reference"})

    report = look_until_rescaled(daemon)

    assert required_facts(a_request(daemon.context(), state=daemon.state)) is RequiredFacts.NOTHING
    assert daemon.state.supervision == Supervision()
    assert not isinstance(report.outcome.decision, Hold)
