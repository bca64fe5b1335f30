"""A cluster that lies about some of its jobs, one lie after the other for each of them, and who judges it."""

from __future__ import annotations

import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

from flink_autoscaler.core.errors import NotReadyError
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from testkit.fakes.flink import FakeRequest, flink_error
from testkit.scenarios.hostile_flink.judging import Verdict
from testkit.scenarios.hostile_flink.lies import CONFIG_VALUES, HTTP, WHOLE, Lie, Scope
from testkit.scenarios.hostile_flink.server import Reply
from testkit.scenarios.hostile_flink.tricks import TRICKS
from testkit.scenarios.hostile_flink.truth import FEW, MANY, TrueJob, Truth
from testkit.scenarios.hostile_flink.values import changed, text_of

HEALTHY: Final = "healthy"
PATIENCE: Final = 24
"""Passes after which something that has to happen has not: several windows and a rescale."""

STARVED: Final = 2.0
"""Intervals for which threads were ready and did not run between two passes, from which on a request that took too
long, or counters of another instant than that of their sample, say nothing about the daemon."""

_BOMBS: Final = frozenset({"bomb", "bomb-in-bomb", "encoding-often", "gzip-twice"})
_HEALING: Final = 2
_OF_LATE: Final = 8
"""Passes whose samples a window may still have."""

_EVALUATED: Final = frozenset({PassPhase.COLLECTING, PassPhase.WINDOW_FILLING, PassPhase.EXECUTED})
_OWN: Final = {"job.autoscaler.history.max.count": "3"}

Queue = deque[Lie]


class Stage(Enum):
    """How far the telling of a lie has come."""

    IDLE = auto()
    WAITING = auto()
    LYING = auto()
    HEALING = auto()


@dataclass
class Slot:
    """A job that is lied about.

    Attributes:
        kinds: Lies for it, to be taken one after the other.
        needs_another: Whether the job is not what it should be any more, so that the next lie is about another one.
    """

    job: TrueJob
    lies: Queue
    stage: Stage = Stage.IDLE
    lie: Lie | None = None
    verdict: Verdict = field(default_factory=lambda: Verdict(""))
    waited: int = 0
    told_for: int = 0
    told_now: int = 0
    needs_another: bool = False


class StolenTime:
    """For how long the threads of this process were ready to run and did not, since the machine had more to do."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._before: dict[str, float] = {}

    def seconds(self) -> float:
        """Return the seconds of all threads together, so far."""
        waited = {}
        for task in Path("/proc/self/task").iterdir():
            with suppress(OSError):
                waited[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
        self._seconds += sum(waited[name] - self._before.get(name, 0.0) for name in waited)
        self._before = waited
        return self._seconds


class HostileCluster:
    """One cluster.

    Args:
        name: Of the cluster.
        queues: One per job that is lied about.
        limit: Seconds that a pass may take.
        on_verdict: Takes what became of each lie; from the thread of the passes.
        steps_every: Passes after which the healthy job needs another parallelism.
        interval: Seconds from one pass to the next.
        engine: Where jobs have to be evaluated before lies are told; empty where that does not matter.
        without_pause: Whether one lie follows the other, with the truth after the last one only.
    """

    def __init__(
        self,
        name: str,
        queues: Sequence[Queue],
        *,
        limit: float,
        on_verdict: Callable[[Verdict], None],
        steps_every: int = 30,
        interval: float = 1.0,
        without_pause: bool = False,
        engine: str = "",
    ) -> None:
        self.name = name
        self.truth = Truth()
        self.lock = threading.Lock()
        self.passes = self.evaluated = self.sent = 0
        self._limit = limit
        self._on_verdict = on_verdict
        self._steps_every = steps_every
        self._without_pause = without_pause
        self._engine = engine
        self._interval = interval
        self._stolen = StolenTime()
        self._stolen_at = deque([self._stolen.seconds()], maxlen=_OF_LATE)
        self._stepped_at: int | None = None
        self._numbers = itertools.count()
        self._first: dict[tuple[str, str], Any] = {}
        self._last: dict[tuple[str, str], Any] = {}
        self._around = Verdict("")
        self.unknown: set[str] = set()
        self.engines: Counter[str] = Counter()
        jobs = [self._new_job() for _ in queues[: len(queues) // 2]]
        self.healthy = self.truth.add(HEALTHY)
        self.healthy.user_config = dict(_OWN)
        jobs += [self._new_job() for _ in queues[len(jobs) :]]
        self._slots = [Slot(job, queue) for job, queue in zip(jobs, queues, strict=True)]

    # What the daemon asks.

    def respond(self, request: FakeRequest) -> Reply:
        """Answer a request, or lie."""
        with self.lock:
            endpoint, job = self.truth.endpoint(request)
            if endpoint == "put" and job is not None:
                self._put(job, request.body)
            answer = self.truth.answer(endpoint, job, request.query.get("get"))
            if answer is None:
                if endpoint == "unknown":
                    self.unknown.add(request.path)
                error = flink_error(404, f"org.apache.flink.runtime.rest.NotFoundException: {request.path}")
                return Reply(error.body, 404)
            return self._reply(endpoint, job, answer)

    def _reply(self, endpoint: str, job: TrueJob | None, answer: Any) -> Reply:
        lied = answer
        if endpoint == "list":
            lied = self._with_entries(answer)
        slot = self._liar(endpoint, job)
        if slot is None or slot.lie is None:
            self._remember(endpoint, job, answer)
            return Reply(text_of(lied, other_id=self.healthy.job_id))
        slot.told_now += 1
        slot.verdict.told += 1
        lie = slot.lie
        if lie.place == HTTP:
            return Reply(text_of(lied, other_id=""), play=TRICKS[lie.what])
        if lie.place == WHOLE:
            lied = self._another(lie.what, endpoint, job, lied)
        else:
            lied = changed(lied, lie.place, lie.what)
        return Reply(text_of(lied, other_id=self.healthy.job_id))

    def _liar(self, endpoint: str, job: TrueJob | None) -> Slot | None:
        for slot in self._slots:
            lie = slot.lie
            if lie is None or slot.stage is not Stage.LYING or lie.endpoint != endpoint:
                continue
            if lie.passes == 0 and slot.verdict.told:
                continue
            if job is None or job is slot.job:
                return slot
        return None

    def _with_entries(self, answer: Any) -> Any:
        entries: list[Any] = list(answer["jobs"])
        places = {entry["jid"]: number for number, entry in enumerate(entries)}
        for slot in self._slots:
            lie = slot.lie
            if lie is None or slot.stage is not Stage.LYING or lie.scope is not Scope.ENTRY:
                continue
            if lie.passes == 0 and slot.verdict.told:
                continue
            slot.told_now += 1
            slot.verdict.told += 1
            place = places[slot.job.job_id]
            entries[place] = _Marked(lie, entries[place])
        shown = [self._entry(each) if isinstance(each, _Marked) else [each] for each in entries]
        return {**answer, "jobs": [entry for some in shown for entry in some]}

    def _entry(self, marked: _Marked) -> list[Any]:
        if (marked.lie.place, marked.lie.what) == ("", "doubled"):
            return [marked.entry, marked.entry]
        return list(changed({"jobs": [marked.entry]}, f"/jobs/0{marked.lie.place}", marked.lie.what)["jobs"])

    def _remember(self, endpoint: str, job: TrueJob | None, answer: Any) -> None:
        key = (endpoint, "" if job is None else job.job_id)
        self._first.setdefault(key, answer)
        self._last[key] = answer

    def _another(self, what: str, endpoint: str, job: TrueJob | None, answer: Any) -> Any:
        key = (endpoint, "" if job is None else job.job_id)
        if what == "neighbour":
            return self.truth.answer(endpoint, self.healthy) if job is not None else answer
        return (self._first if what == "first" else self._last).get(key, answer)

    # What the daemon sends.

    def _put(self, job: TrueJob, body: object) -> None:
        wanted = _upper(body)
        before = {vertex.vertex_id: vertex.parallelism for vertex in job.vertices}
        slot = next((slot for slot in self._slots if slot.job is job), None)
        if wanted == before:
            job.requirements |= {vertex_id: (1, upper) for vertex_id, upper in wanted.items()}
            return
        if _is_called_for(job, before, wanted):
            self.sent += job is self.healthy
            job.requirements |= {vertex_id: (1, upper) for vertex_id, upper in wanted.items()}
            job.take(wanted)
            return
        told = f"{job.name}: {sorted(before.values())} -> {sorted(map(str, wanted.values()))}, needs {job.needs}"
        is_starved = self._is_starved()
        if slot is None:
            for verdict in self._verdicts():
                (verdict.starved if is_starved else verdict.wrong).append(told)
            return
        slot.needs_another = True
        lies = [each.lie for each in self._slots if each.lie is not None and each.lie.scope is Scope.CLUSTER]
        lies += [] if slot.lie is None else [slot.lie]
        is_excused = any(lie.could_be_true or lie.scope is Scope.CONFIG for lie in lies)
        verdict = slot.verdict
        (verdict.excused if is_excused else verdict.starved if is_starved else verdict.wrong).append(told)

    # What a pass came to.

    def after_pass(self, report: PassReport) -> None:
        """Judge a pass, and go on with the lies; in the thread of the passes."""
        with self.lock:
            self.passes += 1
            if report.engine is not None and (report.engine.engine == self._engine or self.is_warm()):
                self.engines[report.engine.engine] += 1  # not while Spark starts
            self._judge(report)
            self._step_healthy()
            for slot in self._slots:
                self._go_on(slot, report)

    def saw_traceback(self, job_key: str, text: str) -> None:
        """Take a traceback that was logged."""
        with self.lock:
            for verdict in self._verdicts(job_key):
                verdict.tracebacks.append(text)

    def saw_memory(self, megabytes: float) -> None:
        """Take by how much the process grew for a moment."""
        with self.lock:
            heavy = [slot.verdict for slot in self._slots if slot.lie is not None and slot.lie.what in _BOMBS]
            for verdict in heavy:
                verdict.memory.append(f"{megabytes:.0f} MB")

    def active(self) -> list[str]:
        """Return the lies that are being told, or whose end is being waited for."""
        return [str(slot.lie) for slot in self._slots if slot.lie is not None]

    def sick_jobs(self) -> list[TrueJob]:
        """Return the jobs that are lied about."""
        return [slot.job for slot in self._slots]

    def is_done(self) -> bool:
        """Tell whether no lie is left."""
        return not any(slot.lies or slot.lie for slot in self._slots)

    def is_warm(self) -> bool:
        """Tell whether the healthy job has been evaluated for the first time."""
        return self.evaluated > 0 and (not self._engine or self.engines[self._engine] > 0)

    def _verdicts(self, job_key: str = "") -> list[Verdict]:
        """Return the verdicts of the lies that something may be due to."""
        own = [slot.verdict for slot in self._slots if slot.lie is not None and job_key == self._key(slot.job)]
        told = [slot.verdict for slot in self._slots if slot.lie is not None and slot.told_now]
        active = [slot.verdict for slot in self._slots if slot.lie is not None]
        return own or told or active or [self._around]

    def _key(self, job: TrueJob) -> str:
        return f"{self.name}/{job.name}"

    def _judge(self, report: PassReport) -> None:
        problem = _problem(report, self._key(self.healthy))
        self._stolen_at.append(self._stolen.seconds())
        stolen = self._stolen_at[-1] - self._stolen_at[-2]
        if not problem:
            self.evaluated += 1
        elif self.is_warm() and not self._is_list_a_lie():
            is_starved = "no complete answer within" in problem and self._is_starved()
            for verdict in self._verdicts():
                (verdict.starved if is_starved else verdict.missed).append(problem)
        if self.is_warm() and report.seconds > self._limit + stolen:
            for verdict in self._verdicts():
                verdict.late.append(f"{report.seconds:.1f} s")
        if self._around.faults or self._around.starved:
            self._on_verdict(self._around)
            self._around = Verdict("")

    def _is_starved(self) -> bool:
        """Tell whether the machine had so much else to do of late that windows of seconds are no measure."""
        seen = [*self._stolen_at, self._stolen.seconds()]
        return max(then - before for before, then in itertools.pairwise(seen)) > STARVED * self._interval

    def _is_list_a_lie(self) -> bool:
        return any(slot.told_now and slot.lie is not None and _is_about_the_list(slot.lie) for slot in self._slots)

    def _step_healthy(self) -> None:
        job = self.healthy
        if self._stepped_at is not None and job.parallelism == job.needs:
            self._stepped_at = None
        if self._stepped_at is not None and self.passes - self._stepped_at > PATIENCE:
            for verdict in self._verdicts():
                verdict.not_sent.append(f"{job.name}: still {job.parallelism}, needs {job.needs}")
            self._stepped_at = self.passes
        if self._stepped_at is None and self.is_warm() and self.passes % self._steps_every == 0:
            job.settle(self.truth.now)
            job.needs = MANY if job.needs == FEW else FEW
            self._stepped_at = self.passes

    def _go_on(self, slot: Slot, report: PassReport) -> None:
        key = self._key(slot.job)
        found = report.reports.get(key)
        is_ready = found is not None and found.outcome.phase is PassPhase.EXECUTED and not found.errors
        slot.verdict.passes += 1
        slot.waited += 1
        problem = _problem(report, key)
        if problem and slot.stage is Stage.LYING:
            slot.verdict.line = problem[:300]
            if _is_odd(problem):
                slot.verdict.odd.append(problem[:300])
        match slot.stage:
            case Stage.IDLE:
                self._next(slot)
            case Stage.WAITING if is_ready or slot.waited > PATIENCE:
                slot.verdict.was_ready = is_ready
                self._begin(slot)
            case Stage.LYING:
                self._lie_on(slot)
            case Stage.HEALING:
                self._heal(slot, is_ready=is_ready, problem=problem or _decision(report, key))
        slot.told_now = 0

    def _next(self, slot: Slot) -> None:
        if not slot.lies or not self.is_warm():
            return
        if slot.needs_another:
            self._replace(slot)
        slot.lie = slot.lies.popleft()
        slot.verdict = Verdict(str(slot.lie))
        slot.stage, slot.waited = Stage.WAITING, 0
        if slot.lie.scope is Scope.START:
            self._replace(slot)
            self._begin(slot)

    def _begin(self, slot: Slot) -> None:
        slot.stage, slot.waited, slot.told_for = Stage.LYING, 0, 0
        lie = slot.lie
        assert lie is not None
        if lie.scope is Scope.RESCALE:
            slot.job.settle(self.truth.now)
            slot.job.needs = MANY if slot.job.needs == FEW else FEW
        elif lie.scope is Scope.CONFIG:
            holder = slot.job.user_config if lie.place.startswith("job.") else slot.job.configuration
            holder[lie.place] = CONFIG_VALUES[lie.what]
            slot.job.change()

    def _lie_on(self, slot: Slot) -> None:
        lie = slot.lie
        assert lie is not None
        if lie.scope is Scope.CONFIG:
            slot.verdict.told += 1
            slot.told_now = 1
        is_told = slot.told_now > 0 and (lie.scope is not Scope.RESCALE or slot.job.parallelism == slot.job.needs)
        slot.told_for += is_told
        if slot.told_for >= max(1, lie.passes) or slot.waited > PATIENCE:
            if self._without_pause and slot.lies:
                self._on_verdict(slot.verdict)
                slot.lie = slot.lies.popleft()
                slot.verdict = Verdict(str(slot.lie))
                self._begin(slot)
                return
            slot.stage, slot.waited = Stage.HEALING, 0
            if lie.scope is Scope.CONFIG:
                slot.job.user_config, slot.job.configuration = dict(_OWN), {}
            if lie.scope in (Scope.CONFIG, Scope.START):
                # Else what was answered about the configuration is remembered for minutes.
                slot.job.change()

    def _heal(self, slot: Slot, *, is_ready: bool, problem: str) -> None:
        if slot.needs_another or (slot.waited >= _HEALING and is_ready and slot.job.parallelism == slot.job.needs):
            self._end(slot)
        elif slot.waited > PATIENCE * 2:
            job = slot.job
            state = f"parallelism {job.parallelism}, needs {job.needs}, ready {is_ready}: {problem}"
            is_excused = slot.lie is not None and slot.lie.could_be_an_edit
            (slot.verdict.excused if is_excused else slot.verdict.not_back).append(state[:600])
            slot.needs_another = True
            self._end(slot)

    def _end(self, slot: Slot) -> None:
        slot.verdict.back_after = slot.waited
        self._on_verdict(slot.verdict)
        slot.lie, slot.stage = None, Stage.IDLE
        slot.verdict = Verdict("")
        self._next(slot)

    def _replace(self, slot: Slot) -> None:
        del self.truth.jobs[slot.job.job_id]
        self._first = {key: value for key, value in self._first.items() if key[1] != slot.job.job_id}
        self._last = {key: value for key, value in self._last.items() if key[1] != slot.job.job_id}
        slot.job = self._new_job()
        slot.needs_another = False

    def _new_job(self) -> TrueJob:
        job = self.truth.add(f"sick-{next(self._numbers)}")
        job.user_config = dict(_OWN)
        return job


@dataclass(frozen=True)
class _Marked:
    """An entry of the list that is a lie."""

    lie: Lie
    entry: Any


def _is_about_the_list(lie: Lie) -> bool:
    """Tell whether nobody can read the list: an answer that nests too deeply is refused as a whole."""
    return lie.scope is Scope.LIST or (lie.scope is Scope.ENTRY and lie.what.startswith("deep-"))


def _upper(body: object) -> dict[str, Any]:
    assert isinstance(body, Mapping)
    return {vertex_id: bounds["parallelism"]["upperBound"] for vertex_id, bounds in body.items()}


def _is_called_for(job: TrueJob, before: Mapping[str, int], wanted: Mapping[str, Any]) -> bool:
    """Tell whether a request leads from where the job is towards what it needs, and not beyond."""
    if wanted.keys() != before.keys():
        return False
    steps = [(before[vertex_id], wanted[vertex_id]) for vertex_id in before]
    return all(min(now, job.needs) <= then <= max(now, job.needs) for now, then in steps)


def _problem(report: PassReport, job_key: str) -> str:
    """Return why a job was not evaluated in a pass; empty when it was."""
    if report.error is not None:
        return f"the whole cluster: {report.error}"
    if job_key in report.failures:
        return str(report.failures[job_key])
    found = report.reports.get(job_key)
    if found is None:
        return f"not in the report: {dict(report.gaps)}"
    errors = [str(error) for error in found.errors if not isinstance(error, NotReadyError)]
    if errors:
        return "; ".join(errors)
    outcome = found.outcome
    reasons = "; ".join(reason.text for reason in outcome.decision.reasons)
    return "" if outcome.phase in _EVALUATED else f"{outcome.phase}: {outcome.error or reasons}"


def _decision(report: PassReport, job_key: str) -> str:
    """Return what was decided about a job, and why."""
    decision = report.reports[job_key].outcome.decision
    return f"{type(decision).__name__}: {'; '.join(reason.text for reason in decision.reasons)}"


_MISTAKES: Final = (
    "AttributeError",
    "TypeError",
    "KeyError",
    "ValueError",
    "AssertionError",
    "IndexError",
    "OverflowError",
    "RecursionError",
    "UnicodeEncodeError",
    "UnicodeDecodeError",
    "ZeroDivisionError",
    "ArithmeticError",
    "InvalidOperation",
    "StopIteration",
    "OSError",
)


def _is_odd(text: str) -> bool:
    return any(name in text for name in _MISTAKES)
