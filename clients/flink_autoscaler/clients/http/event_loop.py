"""Event loops and threads: a loop in the background, coroutines at the same time, blocking work beside a loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TypeVar, cast

from flink_autoscaler.core.errors import ConnectError

K = TypeVar("K")
T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop; one of uvloop where that is installed, which takes less time for the same."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    return cast("asyncio.AbstractEventLoop", import_module("uvloop").new_event_loop())


class EventLoopThread:
    """An event loop in a daemon thread. Starts at once; usable from any other thread until closed."""

    def __init__(self, name: str = "flink-rest") -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[object, object, T], timeout: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its result.

        Args:
            coroutine: Raises what it wants; that is raised here.
            timeout: Seconds to wait; then it is cancelled. None waits as long as it takes.

        Raises:
            ConnectError: It took longer than the timeout, or the loop is closed.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as exc:
            coroutine.close()
            raise ConnectError("the REST client has been closed") from exc
        try:
            return future.result(timeout)
        except TimeoutError as exc:
            if future.done():
                raise
            future.cancel()
            raise ConnectError(f"not finished within {timeout} s") from exc
        except CancelledError as exc:
            raise ConnectError("the REST client was closed meanwhile") from exc

    def close(self) -> None:
        """Cancel what still runs and end the thread. May be called more than once."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        running = asyncio.all_tasks(self._loop)
        for task in running:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*running, return_exceptions=True))
        self._loop.close()


async def run_all(coroutines: Mapping[K, Coroutine[object, object, T]]) -> dict[K, T]:
    """Run coroutines concurrently and return their results under the same keys.

    Raises:
        Exception: The first failure, as it was; the others are cancelled.
    """
    with _first_failure():
        async with asyncio.TaskGroup() as group:
            tasks = {key: group.create_task(coroutine) for key, coroutine in coroutines.items()}
    return {key: task.result() for key, task in tasks.items()}


@contextlib.contextmanager
def _first_failure() -> Iterator[None]:
    try:
        yield
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


def in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run a function in a thread of its own and return its result to the running event loop.

    Unlike those of an executor, such threads hold up neither each other nor the end of the process, however long a
    library takes to notice that nobody answers. Cancelling the future does not end the thread. Exceptions of the work
    become those of the future; they may also remain unnoticed.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    # Looked at here, so that asyncio does not log an exception that nobody came for.
    future.add_done_callback(lambda done: None if done.cancelled() else done.exception())

    def settle(settle_future: Callable[[], None]) -> None:
        if not future.done():
            settle_future()

    def run() -> None:
        try:
            outcome = partial(future.set_result, work())
        except Exception as error:
            outcome = partial(future.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody waits any more
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name="flink-autoscaler-detached", daemon=True).start()
    return future
