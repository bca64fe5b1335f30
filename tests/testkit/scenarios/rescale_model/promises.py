"""What has to hold in every pass of the model, whatever happens to the cluster, the network and the daemon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.supervision import Origin, Stage, Supervision, SupervisionPhase
from testkit.scenarios.rescale_model.cluster import BUFFERS, MOST, Bounds
from testkit.scenarios.rescale_model.daemon import Daemon
from testkit.scenarios.rescale_model.network import FactsFate, PutFate

DAY_MS: Final = 86_400_000

BOUND_TO_UNDO: Final = 1
"""Passes with whole answers and a PUT that arrives, from the first one that can see the failure."""

OUT_OF_ORDER_MS: Final = 120_000
"""An answer that is older than the one before by up to this is none: it may have been on its way for long."""

BOUND_TO_SETTLE: Final = 240
"""Passes of 15 s with a healthy cluster and network until nothing is under way or on probation any more."""


@dataclass
class Promises:
    """Watches one daemon.

    Attributes:
        edit: What somebody else asked for, when the daemon was able to tell; None when there is nothing to respect.
        edited_ms: When that was asked for.
        shown_ms: When the daemon was first told of it, in the pass that its respect lasts from; None before. Until
            then nothing is overwritten either, as long as the JobManager lives that took it over.
        person_ms: When a person last ordered something that may change the requirements or end a pause.
        deeds: When people ended pauses, rolled back or had everything forgotten.
    """

    daemon: Daemon
    edit: Bounds | None = None
    edited_ms: int = 0
    shown_ms: int | None = None
    person_ms: int = 0
    deeds: list[int] = field(default_factory=list)
    rollbacks: list[int] = field(default_factory=list)
    undone: int = 0
    respected: int = 0
    _seen_events: int = 0

    def act(self) -> None:
        """Note that a person ordered something."""
        self.person_ms = self.daemon.now_ms
        self.deeds.append(self.daemon.now_ms)

    def edits(self, requirements: Bounds) -> None:
        """Let somebody else change the requirements."""
        network, supervision = self.daemon.network, self.daemon.state.supervision
        cluster = network.cluster
        is_urgent = supervision.phase is SupervisionPhase.ROLLING_BACK
        known = not is_urgent and dict(supervision.seen) == cluster.requirements and not network.on_its_way
        uppers = {vertex: upper for vertex, (_, upper) in requirements.items()}
        own = [supervision.asked, *(r.target for r in supervision.past if r.reverted or r.accepted_ms is None)]
        if supervision.current is not None:
            own.append(supervision.current.target)
        known = known and supervision.seen_start_ms == cluster.initialized_ms  # else a fail-over may have done it
        is_tellable = known and all(dict(vector) != uppers for vector in own) and requirements != cluster.requirements
        cluster.take(requirements)
        network.author = "others"
        if cluster.requirements == requirements:
            self.edit = requirements if is_tellable else None
            self.edited_ms, self.shown_ms = self.daemon.now_ms, None

    def forget_edit(self) -> None:
        """Note that what somebody else asked for does not count any more, such as after a restart of the job."""
        self.edit = self.shown_ms = None

    def fail_over(self) -> None:
        """Note that the JobManager was restarted: an edit not shown before that looks like requirements it lost."""
        if self.shown_ms is None:
            self.forget_edit()

    def look(self, *, is_killed: bool = False) -> JobPassReport:
        """Do one pass, and check it."""
        daemon, network = self.daemon, self.daemon.network
        before = daemon.state.supervision
        facts, put = network.facts_fate, network.put_fate
        must_undo = self._must_undo(before) and facts is FactsFate.FINE and put is PutFate.FINE and not is_killed
        report = daemon.look(is_killed=is_killed)
        after = daemon.state.supervision
        self._check_decision(report, before)
        self._check_wanted(report)
        self._check_puts(facts, before)
        self._check_records(after)
        self._check_rollbacks()
        if must_undo:
            self.undone += 1
            assert not network.cluster.is_fatal or after.pause is not None, "a bad rescale was not undone"
        return report

    def _must_undo(self, before: Supervision) -> bool:
        """Tell whether the job shows that it does not survive what we asked for."""
        network, orders = self.daemon.network, self.daemon.orders
        cluster = network.cluster
        is_ours = network.author == "us" and not network.was_fatal_before and before.edit is None
        shows = cluster.exceptions and cluster.exceptions[0].text == BUFFERS and cluster.execution.since_ms is None
        shows = shows and cluster.died > network.delivered
        since_ms = before.current.since_ms if before.current is not None else 0
        # A clock that was just set back by a little makes answers look old, and failures older than the rescale.
        is_heard = (before.heard_ms or 0) < cluster.now_ms and bool(shows) and since_ms < cluster.exceptions[0].at_ms
        return bool(
            is_ours
            and is_heard
            and cluster.is_fatal
            and not cluster.status.is_terminal
            and before.phase is not SupervisionPhase.ROLLING_BACK
            and orders == type(orders)()
        )

    def _check_decision(self, report: JobPassReport, before: Supervision) -> None:
        if not isinstance(report.outcome.decision, Rescale):
            return
        after = self.daemon.state.supervision
        open_before = before.current is not None and not before.current.stage.is_final
        past = {record.decided_ms: record for record in after.past}
        if open_before and before.current is not None:
            assert past[before.current.decided_ms].stage.is_final
            assert past[before.current.decided_ms].reason != "another rescale was decided", "two rescales at once"
        assert after.phase not in (SupervisionPhase.ROLLING_BACK, SupervisionPhase.PAUSED), (
            "decided while paused or rolling back"
        )
        assert after.edit is None, "decided while somebody else's edit is respected"
        failed = {entry.vertex_id: entry.parallelism for entry in after.quarantine}
        for vertex, summary in report.outcome.decision.summaries.items():
            assert not summary.is_scale_up or summary.new < failed.get(vertex, 99), "a parallelism that failed"

    def _check_wanted(self, report: JobPassReport) -> None:
        outcome, vector = report.outcome, self.daemon.network.cluster.execution.vector
        if outcome.observation.topology is None:
            return
        for vertex, parallelism in outcome.target.parallelism.items():
            assert vertex in vector, "wanted for a vertex that the job does not have"
            assert 1 <= parallelism <= MOST[vertex]

    def _check_puts(self, facts: FactsFate, before: Supervision) -> None:
        daemon = self.daemon
        sent = daemon.network.sent
        assert len(sent) <= 1
        assert all(old != new for old, new in sent), "a PUT that changes nothing"
        if daemon.orders.dry_run is not None:
            assert not sent, "a PUT in a dry run"
        if self.edit is None:
            return
        if self.shown_ms is None and self._is_shown(self.edit, before):
            self.shown_ms = daemon.now_ms
        if self.person_ms >= self.edited_ms or self._is_respected_enough():
            self.forget_edit()
            return
        self.respected += 1
        assert not sent, f"a PUT although somebody else has changed the requirements ({facts})"

    def _is_shown(self, edit: Bounds, before: Supervision) -> bool:
        """Tell whether the daemon was told of an edit in this pass, by an answer that came in order."""
        told, heard_ms = self.daemon.told, before.heard_ms
        if told is None or told.requirements != edit:
            return False
        return told.now_ms is None or heard_ms is None or not 0 <= heard_ms - told.now_ms <= OUT_OF_ORDER_MS

    def _is_respected_enough(self) -> bool:
        """Tell whether the time is over for which the job is left as somebody else wanted it."""
        respect_ms = self.daemon.context().options.edit_respect.ms
        return self.shown_ms is not None and self.daemon.now_ms >= self.shown_ms + respect_ms

    def _check_records(self, after: Supervision) -> None:
        assert all(record.stage.is_final for record in after.past), "an open rescale in the past"
        budget = self.daemon.context().options.rescales_per_day
        if budget:
            records = (*after.past, *([after.current] if after.current else []))
            since_ms = self.daemon.now_ms - DAY_MS
            counted = [r for r in records if r.origin is Origin.AUTOSCALER and r.stage is not Stage.REFUSED]
            assert sum(r.decided_ms > since_ms for r in counted) <= budget

    def _check_rollbacks(self) -> None:
        events, now_ms = self.daemon.events.events, self.daemon.now_ms
        self.rollbacks += [now_ms for event in events[self._seen_events :] if event.reason == "RollbackStarted"]
        self._seen_events = len(events)
        most = self.daemon.context().options.rollback_max_per_day
        today = [at for at in self.rollbacks if at > now_ms - DAY_MS]
        deeds = [at for at in self.deeds if at > now_ms - DAY_MS]
        assert len(today) <= most + len(deeds), "more rollbacks in a day than allowed"

    def settle(self, tick: Callable[[int], None]) -> int:
        """Let cluster and network be well, and return the passes until the job is at rest."""
        for number in range(BOUND_TO_SETTLE):
            supervision = self.daemon.state.supervision
            is_open = supervision.current is not None and not supervision.current.stage.is_final
            if number and not is_open and supervision.phase in (SupervisionPhase.STABLE, SupervisionPhase.PAUSED):
                return number
            tick(15)
            self.look()
        raise AssertionError(f"stuck: {self.daemon.state.supervision}")
