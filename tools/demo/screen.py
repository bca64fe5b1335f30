"""How the demo is shown: to a terminal as one picture that moves, elsewhere as lines."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console

from demo.plan import DemoPlan
from demo.story import Note, Story

_LINE_EVERY = 10.0


@dataclass(frozen=True)
class Frame:
    """What there is to show at one instant.

    Attributes:
        start: Second 0 of the curve, epoch seconds.
        now: Epoch seconds.
        engine: Where the daemon evaluates.
        waiting_for: What is still missing after the end of the curve; empty before.
    """

    plan: DemoPlan
    story: Story
    start: float
    now: float
    engine: str
    waiting_for: tuple[str, ...] = ()

    @property
    def second(self) -> float:
        """Seconds since the start."""
        return self.now - self.start


class Screen(Protocol):
    """Shows frames; a context manager. Belongs to one thread, which calls :meth:`show` about once a second."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, frame: Frame) -> None:
        """Show how things are now."""
        ...


def rate_text(value: float | None) -> str:
    """Return records/s for people."""
    return "-" if value is None else f"{value:,.0f}/s"


def count_text(value: float | None) -> str:
    """Return a number of records for people."""
    return "-" if value is None else f"{value:,.0f}"


def parallelism_text(real: int | None, wanted: int | None) -> str:
    """Return the real parallelism, and what is wanted instead."""
    text = "-" if real is None else str(real)
    return text if wanted is None or wanted == real else f"{text} (wanted {wanted})"


class PlainScreen:
    """One line every ten seconds, and one for everything that happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_line = 0.0
        self._notes_shown = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave nothing to close."""

    def show(self, frame: Frame) -> None:
        """Print what is new, and from time to time how things are."""
        for note in frame.story.notes[self._notes_shown :]:
            self._print(note_line(note, frame.start))
        self._notes_shown = len(frame.story.notes)
        if frame.second >= self._next_line:
            self._next_line = frame.second + _LINE_EVERY
            self._print(status_line(frame))

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def note_line(note: Note, start: float) -> str:
    """Return one line about something that happened."""
    return f"{note.at - start:6.0f} s  * {note.text}"


def status_line(frame: Frame) -> str:
    """Return one line about how things are."""
    story = frame.story
    arrivals = story.arrivals()
    vertices = ", ".join(
        f"{name} {parallelism_text(real, story.wanted.get(name))}" for name, real in story.parallelism.items()
    )
    phase = story.thinking.phase if story.thinking else "-"
    line = (
        f"{frame.second:6.0f} s  arrival {rate_text(arrivals[-1][1] if arrivals else None):>8}"
        f"  lag {count_text(story.lag):>7}  parallelism: {vertices}  [{phase}]"
    )
    return f"{line}  waiting: {'; '.join(frame.waiting_for)}" if frame.waiting_for else line
