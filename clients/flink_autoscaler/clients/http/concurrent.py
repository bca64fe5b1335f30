"""Running several requests at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

K = TypeVar("K")
S = TypeVar("S")
T = TypeVar("T")


async def run_all(coroutines: Mapping[K, Coroutine[object, object, T]]) -> dict[K, T]:
    """Run coroutines concurrently and return their results under the same keys.

    Raises:
        Exception: The first failure, as it was; the others are cancelled.
    """
    with _first_failure():
        async with asyncio.TaskGroup() as group:
            tasks = {key: group.create_task(coroutine) for key, coroutine in coroutines.items()}
    return {key: task.result() for key, task in tasks.items()}


async def run_both(left: Coroutine[object, object, S], right: Coroutine[object, object, T]) -> tuple[S, T]:
    """Run two coroutines concurrently and return both results.

    Raises:
        Exception: As for :func:`run_all`.
    """
    with _first_failure():
        async with asyncio.TaskGroup() as group:
            tasks = group.create_task(left), group.create_task(right)
    return tasks[0].result(), tasks[1].result()


@contextmanager
def _first_failure() -> Iterator[None]:
    try:
        yield
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
