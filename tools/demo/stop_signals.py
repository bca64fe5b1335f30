"""Ctrl-C and friends: the first one ends the demo in order, the second one at once."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedError(BaseException):
    """Somebody asked for the end; not an ``Exception``, so that no handler of errors keeps it.

    Attributes:
        code: The exit status of a process that a signal ended.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


class StopSignals:
    """A context manager; inside, the first signal raises :class:`StoppedError` in the main thread."""

    def __init__(self) -> None:
        self._seen = False
        self._is_over = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def tidy_up(self) -> None:
        """From here on only things are stopped: a first signal changes nothing, a second one ends the process."""
        self._is_over = True

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._seen:
            os._exit(128 + number)  # the guards end what is left
        self._seen = True
        if not self._is_over:
            raise StoppedError(number)
