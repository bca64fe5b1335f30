"""What has happened so far: the quantities over time, the rescales, and whether it is what was promised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from demo.daemon_log import Change, Considered, Decision, Fact, Requested, Trouble

# Flink's metrics are up to 3 s old; over 8 s that is little.
_ARRIVAL_SPAN = 8.0
# In a restart the lag is unknown or, before splits are assigned, 0: one look proves nothing.
_FINAL_SPAN = 6.0


@dataclass(frozen=True)
class Look:
    """One look at the job through Flink's REST API.

    Attributes:
        at: Epoch seconds.
        parallelism: By vertex name, while every subtask runs; None in a restart.
        lag: Records waiting at the source; None when not answered.
        taken: Records that the source has emitted since the start of the job, rescales included.
    """

    at: float
    parallelism: Mapping[str, int] | None = None
    lag: float | None = None
    taken: float | None = None


@dataclass(frozen=True)
class Rescale:
    """A vertex that was seen running with another parallelism than before: Flink's own answer.

    Attributes:
        at: Epoch seconds.
        change: What the daemon had decided about the vertex; None when it was not the daemon.
    """

    at: float
    vertex: str
    before: int
    after: int
    change: Change | None = None

    @property
    def is_up(self) -> bool:
        """Whether the vertex has more subtasks than before."""
        return self.after > self.before


@dataclass(frozen=True)
class Note:
    """One line of what happened."""

    at: float
    text: str


@dataclass
class Story:
    """Collects looks at the job and facts from the daemon's log. Belongs to one thread.

    Attributes:
        vertices: Name by vertex id; an id without a name stands for itself.
        parallelism: Real parallelism by vertex name, as last seen with every subtask running.
        wanted: Parallelism by vertex name that the daemon last requested; empty before the first time.
        decisions: What the daemon decided to change, in order.
        thinking: What the last pass came to.
    """

    vertices: Mapping[str, str] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    rescales: list[Rescale] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    parallelism: dict[str, int] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    thinking: Considered | None = None

    def see(self, look: Look) -> None:
        """Add a look; a parallelism that differs from the one before is a confirmed rescale."""
        self.looks.append(look)
        for vertex, after in (look.parallelism or {}).items():
            before = self.parallelism.get(vertex, after)
            self.parallelism[vertex] = after
            if before != after:
                self._confirm(Rescale(look.at, vertex, before, after, self._last_change(vertex)))

    def hear(self, fact: Fact) -> None:
        """Add what the daemon said."""
        match fact:
            case Decision(at, changes):
                self.decisions.append(fact)
                for change in changes:
                    text = f"decided: {change.vertex} {change.before} -> {change.after} ({change.reason})"
                    self.notes.append(Note(at, text))
            case Requested(_, parallelism):
                self.wanted.update({self.vertices.get(key, key): value for key, value in parallelism.items()})
            case Considered():
                self.thinking = fact
            case Trouble(at, text):
                self.notes.append(Note(at, f"warning: {text}"))

    @property
    def lag(self) -> float | None:
        """The last lag that Flink told."""
        return next((look.lag for look in reversed(self.looks) if look.lag is not None), None)

    @property
    def final_lag(self) -> float | None:
        """The greatest lag of the last seconds; None when Flink did not tell it then."""
        recent = [look for look in self.looks if look.at >= self.looks[-1].at - _FINAL_SPAN]
        return max((look.lag for look in recent if look.lag is not None), default=None)

    @property
    def peak_lag(self) -> float | None:
        """The greatest lag that Flink told."""
        return max((look.lag for look in self.looks if look.lag is not None), default=None)

    @property
    def processed(self) -> float | None:
        """Records that the job has taken from its source."""
        return max((look.taken for look in self.looks if look.taken is not None), default=None)

    def arrivals(self) -> list[tuple[float, float]]:
        """Return instants and the records/s that arrived around them.

        What was taken and what waits add up to what has arrived, in a restart too. Only looks at which Flink had new
        numbers count.
        """
        points: list[tuple[float, float]] = []
        for look in self.looks:
            if look.lag is not None and look.taken is not None:
                total = look.lag + look.taken
                if not points or total > points[-1][1]:
                    points.append((look.at, total))
        return _slopes(points)

    def _confirm(self, rescale: Rescale) -> None:
        self.rescales.append(rescale)
        text = f"confirmed: {rescale.vertex} runs with {rescale.after}, had {rescale.before}"
        self.notes.append(Note(rescale.at, text))

    def _last_change(self, vertex: str) -> Change | None:
        changes = (change for decision in reversed(self.decisions) for change in decision.changes)
        return next((change for change in changes if change.vertex == vertex), None)


def _slopes(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    slopes: list[tuple[float, float]] = []
    first = 0
    for at, total in points:
        while first + 1 < len(points) and points[first + 1][0] <= at - _ARRIVAL_SPAN:
            first += 1
        since, before = points[first]
        if at - since >= _ARRIVAL_SPAN:
            slopes.append((at, (total - before) / (at - since)))
    return slopes


def longest_above(looks: Sequence[Look], most: Callable[[float], float]) -> float:
    """Return for how many seconds in a row more waited than may; an unknown lag goes on with what was.

    Args:
        looks: In order.
        most: Records that may wait at an instant.
    """
    since, longest = None, 0.0
    for look in looks:
        if look.lag is not None and look.lag <= most(look.at):
            since = None
        elif look.lag is not None and since is None:
            since = look.at
        longest = max(longest, 0.0 if since is None else look.at - since)
    return longest


def shortfalls(story: Story, drained_lag: float) -> list[str]:
    """Return what is missing for a success; empty when the demo showed what it promises."""
    asked = [rescale for rescale in story.rescales if rescale.change is not None]
    found = []
    if not any(rescale.is_up for rescale in asked):
        found.append("no scale-up by the daemon was confirmed by Flink")
    if all(rescale.is_up for rescale in asked):
        found.append("no scale-down by the daemon was confirmed by Flink")
    if story.final_lag is None:
        found.append("Flink did not tell the lag at the end")
    elif story.final_lag > drained_lag:
        found.append(f"the lag did not drain: {story.final_lag:,.0f} records wait, at most {drained_lag:,.0f} may")
    return found
