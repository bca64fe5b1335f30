"""What became of lies: one verdict per lie, and the table of all.

Judged is, for every lie:

1. The healthy job beside it was evaluated in every pass, and no pass took longer than its interval. Passes in which the
   list of jobs itself was a lie are left out: without a list there is nothing to evaluate.
2. No PUT was sent that the truth does not call for, neither for the healthy job nor for the one lied about. A lie
   that could be true and lasts for several passes is left out, and so is the job's own configuration: the job may be
   rescaled then, its neighbour may not.
3. No traceback was logged.
4. The job lied about is evaluated again within a window once the truth is told.
5. A rescale that the truth does call for was sent: who does nothing passes the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from testkit.scenarios.hostile_flink.lies import Lie

JUDGED: Final = ("missed", "late", "wrong", "tracebacks", "not_back", "not_sent", "hung", "memory")
COUNTED: Final = (*JUDGED, "excused", "odd", "starved")


@dataclass
class Verdict:
    """What became of one lie.

    Attributes:
        lie: Its text; empty for what no lie was told around.
        told: Answers that were changed.
        was_ready: Whether the job was being evaluated with a full window before.
        back_after: Passes from the end of the lie until the job was evaluated as before.
        missed: Passes without the healthy job, each with the reason.
        late: Passes that took too long.
        wrong: Requests that the truth does not call for.
        excused: Requests that follow from what could be true.
        tracebacks: Last lines of those that were logged.
        not_back: What the job lied about still was, long after the lie.
        not_sent: Rescales that the truth calls for, and nobody asked for.
        hung: Why the daemon had to be killed.
        memory: MB that the daemon grew by at most.
        odd: Messages that tell of a mistake in the program rather than of the answer; not judged.
        starved: What would count as missed or wrong, while the machine was too busy for windows of seconds; not judged.
        line: A log line about the job, for people.
    """

    lie: str
    told: int = 0
    was_ready: bool = False
    passes: int = 0
    back_after: int = 0
    missed: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    excused: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)
    not_back: list[str] = field(default_factory=list)
    not_sent: list[str] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    memory: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    starved: list[str] = field(default_factory=list)
    line: str = ""

    @property
    def faults(self) -> dict[str, list[str]]:
        """What does not hold, by judgement."""
        return {name: found for name in JUDGED if (found := getattr(self, name))}

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read what :meth:`document` returned."""
        return cls(**document)

    def __str__(self) -> str:
        told = "; ".join(f"{name}: {found[0][:300]} ({len(found)})" for name, found in self.faults.items())
        return f"{self.lie or '(no lie)'} -> {told or 'harmless'}"


@dataclass
class Figures:
    """What a run came to.

    Attributes:
        verdicts: Of the lies, in the order in which they ended.
        passes: Of all clusters.
        evaluated: Passes of healthy jobs in which they were evaluated.
        sent: Rescales of healthy jobs that the truth called for, and that were sent.
        seconds: Of the run.
        peak: MB resident at most.
        restarts: Daemons that had to be killed.
        engines: Passes by where their jobs were evaluated.
        unknown: Paths that were asked for and that the truth knows nothing about.
    """

    verdicts: list[Verdict] = field(default_factory=list)
    passes: int = 0
    evaluated: int = 0
    sent: int = 0
    seconds: float = 0.0
    peak: float = 0.0
    restarts: int = 0
    unknown: set[str] = field(default_factory=set)
    engines: Counter[str] = field(default_factory=Counter)

    @property
    def failed(self) -> list[Verdict]:
        """Verdicts that say what does not hold."""
        return [verdict for verdict in self.verdicts if verdict.faults]

    def count(self, judgement: str) -> int:
        """Return how often a judgement was broken."""
        return sum(len(getattr(verdict, judgement)) for verdict in self.verdicts)

    def table(self) -> str:
        """Return a table by kind of lie, and the figures of the run."""
        groups: dict[str, list[Verdict]] = defaultdict(list)
        for verdict in self.verdicts:
            groups[Lie.of(verdict.lie).kind if verdict.lie else "(no lie)"].append(verdict)
        heads = ("lies", "told", "ready", *COUNTED)
        rows = [_row(kind, groups[kind]) for kind in sorted(groups)] + [_row("all", self.verdicts)]
        lines = [f"{'kind of lie':<16}" + "".join(f"{head:>11}" for head in heads)]
        lines += [f"{kind:<16}" + "".join(f"{number:>11}" for number in numbers) for kind, *numbers in rows]
        return "\n".join([*lines, "", self.summary()])

    def summary(self) -> str:
        """Return the figures in one line."""
        told = sum(bool(verdict.told) for verdict in self.verdicts)
        return (
            f"{len(self.verdicts)} lies ({told} told) in {self.seconds:.0f} s and {self.passes} passes: "
            f"{self.count('missed')} passes missed by the healthy job, {self.count('late')} late, "
            f"{self.count('wrong')} wrong requests, {self.count('tracebacks')} tracebacks, "
            f"{self.count('hung')} times hung; {self.sent} rescales called for and sent, "
            f"{self.count('not_sent')} not sent; at most {self.peak:.0f} MB"
        )

    def examples(self, most: int = 3) -> str:
        """Return some lies of every kind of fault."""
        shown: Counter[str] = Counter()
        lines = []
        for verdict in self.failed:
            kind = Lie.of(verdict.lie).kind if verdict.lie else "(no lie)"
            keys = [f"{kind} {fault}" for fault in verdict.faults]
            if any(shown[key] < most for key in keys):
                lines.append(str(verdict))
            shown.update(keys)
        return "\n".join(lines)


def _row(kind: str, verdicts: Sequence[Verdict]) -> tuple[str | int, ...]:
    numbers = [len(verdicts), _number(v.told for v in verdicts), _number(v.was_ready for v in verdicts)]
    counted = [
        sum(len(getattr(verdict, name)) for verdict in verdicts) for name in (*JUDGED, "excused", "odd", "starved")
    ]
    return (kind, *numbers, *counted)


def _number(claims: Iterable[object]) -> int:
    return sum(map(bool, claims))
