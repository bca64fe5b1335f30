"""What is raised inside a border, what it turns into, and how it is told once."""

from __future__ import annotations

import asyncio

import pytest

from flink_autoscaler.core.border import Border, ToldOnce, attempted, awaited
from flink_autoscaler.core.errors import (
    LONGEST_TEXT,
    AutoscalerError,
    ConfigError,
    PluginError,
    ResponseError,
)


class NastyError(Exception):
    """Cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text either")


def raising(error: BaseException) -> int:
    raise error


def test_an_error_of_ours_stays_as_it_is() -> None:
    error = ConfigError("the key x")

    assert attempted(lambda: raising(error), ResponseError) is error


@pytest.mark.parametrize("kind", [PluginError, ResponseError])
@pytest.mark.parametrize(
    "error",
    [AssertionError("x"), OverflowError("x"), RecursionError("x"), MemoryError("x"), StopIteration("x")],
    ids=repr,
)
def test_anything_else_becomes_the_kind_of_the_border_with_its_cause(
    kind: type[AutoscalerError], error: Exception
) -> None:
    found = attempted(lambda: raising(error), kind, "job a")

    assert type(found) is kind
    assert str(found) == f"job a: {type(error).__name__}: x"
    assert isinstance(found, kind)
    assert found.__cause__ is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), asyncio.CancelledError()], ids=repr)
def test_what_ends_the_work_goes_on_its_way(error: BaseException) -> None:
    with pytest.raises(type(error)), Border():
        raise error


def test_a_border_around_what_goes_well_has_no_error() -> None:
    with Border() as border:
        answer = 7

    assert (answer, border.error) == (7, None)


def test_texts_are_bounded_and_need_not_exist() -> None:
    long, none = (attempted(lambda error=error: raising(error)) for error in (ValueError("x" * 10**6), NastyError()))  # type: ignore[misc]

    assert len(str(long)) < LONGEST_TEXT + 100
    assert str(none) == "NastyError: its text cannot be made: RuntimeError"


def test_an_awaited_error_ends_at_the_border() -> None:
    async def failing() -> int:
        await asyncio.sleep(0)
        raise ZeroDivisionError("x")

    assert str(asyncio.run(awaited(failing(), ResponseError))) == "ZeroDivisionError: x"


def test_a_cancelled_task_is_cancelled_in_spite_of_a_border() -> None:
    async def run() -> bool:
        async def hanging() -> None:
            with Border():
                await asyncio.Event().wait()

        task = asyncio.create_task(hanging())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(run())


def test_what_lasts_is_told_once_and_its_end_as_well() -> None:
    told = ToldOnce()
    errors = [None, ConfigError("a"), ConfigError("a"), ConfigError("b"), None, None, ConfigError("a")]

    assert [told.is_news("x", error) for error in errors] == [False, True, False, True, True, False, True]
    assert told.is_news("another", ConfigError("a"))
