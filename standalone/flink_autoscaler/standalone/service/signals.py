"""The signals of the daemon: SIGTERM and SIGINT end it, SIGHUP has it read its configuration again."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

from flink_autoscaler.core.errors import ConfigError

End = int | ConfigError
"""Why the daemon ends: the number of a signal, or what only a person can change."""

_STOPS: Final = (signal.SIGTERM, signal.SIGINT)

_LONGEST_WAIT: Final = 1.0
"""Python runs a handler when the main thread comes back from what it waits for. A signal in the moment before a wait
begins does not end it, and on a busy machine that moment is long enough to be met."""


class DaemonRequest(Enum):
    """Request to a running daemon."""

    RELOAD = auto()


class Inbox:
    """Queue of the main thread. Unlike an event or a lock, it may be used by a handler that interrupts the thread."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[End | DaemonRequest] = SimpleQueue()
        self._has_reload: list[bool] = []

    def put(self, end: End) -> None:
        """Have the daemon end; from any thread."""
        self._queue.put(end)

    def put_reload(self) -> None:
        """Have the configuration read again. One reading answers all that came before it began."""
        if not self._has_reload:
            self._has_reload.append(True)
            self._queue.put(DaemonRequest.RELOAD)

    def get(self) -> End | DaemonRequest:
        """Wait for the next wish; belongs to the main thread."""
        while True:
            try:
                wish = self._queue.get(timeout=_LONGEST_WAIT)
            except Empty:
                continue
            if wish is DaemonRequest.RELOAD:
                self._has_reload.clear()
            return wish


def hold_reloads() -> None:
    """Keep a SIGHUP for later. Without this one that comes while the program starts would end it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


@contextmanager
def received_signals(*, reloads: bool) -> Iterator[Inbox]:
    """Collect signals; a second one to stop ends the process at once, whatever it is doing.

    Args:
        reloads: Whether to take SIGHUP, also one that was held; else it does what it does.
    """
    inbox = Inbox()

    def on_stop(number: int, _: FrameType | None) -> None:
        if is_stopping:
            exit_now(128 + number)
        is_stopping.append(True)
        inbox.put(number)

    is_stopping: list[bool] = []
    before = {number: signal.signal(number, on_stop) for number in _STOPS}
    if reloads:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda _, __: inbox.put_reload())
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP} if reloads else ())
    try:
        yield inbox
    finally:
        # First the mask: one that comes now is as late as one that comes after the end.
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_now(code: int) -> None:
    """End the process without waiting for any thread."""
    logging.shutdown()
    os._exit(code)
