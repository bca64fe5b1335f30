"""Work that may block for long, in threads that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run a function in a thread of its own and return its result to the running event loop.

    Unlike those of an executor, such threads hold up neither each other nor the end of the process, however long a
    library takes to notice that nobody answers. Cancelling the future does not end the thread.

    Args:
        work: Its exceptions become those of the future; they may also remain unnoticed.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(_noticed)

    def run() -> None:
        try:
            settle = partial(future.set_result, work())
        except Exception as error:
            settle = partial(future.set_exception, error)
        _call(loop, future, settle)

    threading.Thread(target=run, name="flink-autoscaler-detached", daemon=True).start()
    return future


def _call(loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], settle: Callable[[], None]) -> None:
    def settle_once() -> None:
        if not future.done():
            settle()

    with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody waits any more
        loop.call_soon_threadsafe(settle_once)


def _noticed(future: asyncio.Future[T]) -> None:
    """Keep asyncio from logging an exception that nobody came for."""
    if not future.cancelled():
        future.exception()
