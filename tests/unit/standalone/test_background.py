"""Work beside the passes: in order, within bounds, tried again, and told once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.standalone.background import BackgroundWriter
from testkit.clusters.flink.waiting import wait_until

PATIENCE = 60.0
BAD = "bad"


class Words(BackgroundWriter[str]):
    """Writes words while nobody holds it up, and fails as often as it is told to."""

    def __init__(self, limit: int = 10, failures: int = 0, tell_after: float = 0.0, retry: float = 0.001) -> None:
        super().__init__("words", limit=limit, batch=2, retry=retry, tell_after=tell_after)
        self.failures = failures
        self.written: list[str] = []
        self.dropped: list[str] = []
        self.told: list[str] = []
        self.is_held = threading.Event()
        self.may_write = threading.Event()
        self.may_write.set()

    def put(self, *words: str) -> None:
        for word in words:
            self._put(word)

    def close(self, timeout: float) -> bool:
        return self._close_within(timeout)

    def _size(self, word: str) -> int:
        return len(word)

    def _write(self, items: list[str]) -> None:
        self.is_held.set()
        self.may_write.wait(PATIENCE)
        while items:
            if self.failures:
                self.failures -= 1
                raise OSError("away")
            self.written.append(items.pop(0))
            if items == [BAD]:
                raise OSError(BAD)

    def _on_dropped(self, word: str) -> None:
        self.dropped.append(word)

    def _report_outage(self, error: AutoscalerError | None) -> None:
        self.told.append("back" if error is None else str(error))


@pytest.fixture
def held() -> Iterator[Words]:
    """Give a writer that is busy with a first word."""
    words = Words()
    words.may_write.clear()
    words.start()
    words.put("0")
    assert words.is_held.wait(PATIENCE)
    yield words
    words.may_write.set()
    words.close(PATIENCE)


def test_items_are_written_in_order() -> None:
    words = Words()
    words.start()
    words.put("a", "b", "c", "d", "e")

    assert words.close(PATIENCE)
    assert words.written == ["a", "b", "c", "d", "e"]


def test_what_came_before_the_start_is_written() -> None:
    words = Words()
    words.put("a")
    words.start()

    assert words.close(PATIENCE)
    assert words.written == ["a"]


def test_what_fails_is_tried_again_before_what_came_later_and_told_once() -> None:
    words = Words(failures=3)
    words.put("a", "b", "c")
    words.start()

    wait_until("all are written", lambda: len(words.written) == 3, PATIENCE, interval=0.01)
    assert (words.written, words.dropped) == (["a", "b", "c"], [])
    assert words.close(PATIENCE)
    assert words.told == ["OSError: away", "back"]


def test_what_was_written_before_a_failure_is_not_written_again() -> None:
    words = Words()
    words.put("a", BAD, "b")
    words.start()

    assert words.flush(PATIENCE) or words.flush(PATIENCE)
    words.close(PATIENCE)
    assert words.written == ["a", BAD, "b"]


def test_flush_tries_at_once_what_failed_before_and_says_when_that_fails_again() -> None:
    words = Words(failures=2, retry=3600.0)
    words.put("a")
    words.start()

    assert False in [words.flush(PATIENCE) for _ in range(2)]
    assert words.flush(PATIENCE)
    assert words.written == ["a"]
    words.close(PATIENCE)


def test_outage_that_is_over_soon_is_not_told() -> None:
    words = Words(failures=3, tell_after=3600.0)
    words.put("a")
    words.start()

    wait_until("it is written", lambda: words.written, PATIENCE, interval=0.01)
    words.close(PATIENCE)
    assert words.told == []


def test_oldest_are_dropped_beyond_the_limit_by_their_size(held: Words) -> None:
    held.put("aaaa", "bbbb", "cc", "dddd")
    held.put("x" * 11)
    held.put("e")

    held.may_write.set()

    assert held.flush(PATIENCE)
    assert held.dropped == ["aaaa", "bbbb", "cc", "dddd", "x" * 11]
    assert held.written == ["0", "e"]


def test_flush_and_close_do_not_wait_for_ever(held: Words) -> None:
    assert not held.flush(0.01)
    assert not held.close(0.01)
    assert held.written == []
