"""What is raised inside a border, what it turns into, and how it is told once."""

from __future__ import annotations

import asyncio

import pytest

from flink_autoscaler.core.error_boundary import ErrorBoundary, try_await, try_call
from flink_autoscaler.core.errors import (
    LONGEST_TEXT,
    AutoscalerError,
    ConfigError,
    MissingMetricError,
    PluginError,
    ResponseError,
)
from flink_autoscaler.core.memoize import memoize_last
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.stores.sql.database.failures import LeaseLostError


class NastyError(Exception):
    """Cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text either")


def raising(error: BaseException) -> int:
    raise error


def test_an_error_of_ours_stays_as_it_is() -> None:
    error = ConfigError("the key x")

    assert try_call(lambda: raising(error), ResponseError) is error


@pytest.mark.parametrize("kind", [PluginError, ResponseError])
@pytest.mark.parametrize(
    "error",
    [AssertionError("x"), OverflowError("x"), RecursionError("x"), MemoryError("x"), StopIteration("x")],
    ids=repr,
)
def test_anything_else_becomes_the_kind_of_the_border_with_its_cause(
    kind: type[AutoscalerError], error: Exception
) -> None:
    found = try_call(lambda: raising(error), kind, "job a")

    assert type(found) is kind
    assert str(found) == f"job a: {type(error).__name__}: x"
    assert isinstance(found, kind)
    assert found.__cause__ is error


def test_texts_are_bounded_and_need_not_exist() -> None:
    long, none = (try_call(lambda error=error: raising(error)) for error in (ValueError("x" * 10**6), NastyError()))  # type: ignore[misc]

    assert len(str(long)) < LONGEST_TEXT + 100
    assert str(none) == "NastyError: its text cannot be made: RuntimeError"


def test_an_awaited_error_ends_at_the_border() -> None:
    async def failing() -> int:
        await asyncio.sleep(0)
        raise ZeroDivisionError("x")

    assert str(asyncio.run(try_await(failing(), ResponseError))) == "ZeroDivisionError: x"


def test_a_cancelled_task_is_cancelled_in_spite_of_a_border() -> None:
    async def run() -> bool:
        async def hanging() -> None:
            with ErrorBoundary():
                await asyncio.Event().wait()

        task = asyncio.create_task(hanging())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(run())


class _ForeignError(AutoscalerError):
    """Of another module."""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(ConfigError("wrong"), "CONFIG", id="as it is"),
        pytest.param(MissingMetricError("a", "busy"), "MISSINGMETRIC", id="of a kind of its own"),
        pytest.param(
            ValueParseError("job.autoscaler.enabled", "perhaps", "true, false"), "CONFIG", id="of the options"
        ),
        pytest.param(LeaseLostError("gone"), "STORE", id="of a database"),
        pytest.param(_ForeignError("else"), "AUTOSCALER", id="of nobody's kind"),
    ],
)
def test_code_is_a_word_that_has_a_meaning(error: AutoscalerError, code: str) -> None:
    assert error.code == code


@memoize_last
def listed(*given: object) -> list[object]:
    return list(given)


def test_what_was_made_of_the_same_objects_is_kept() -> None:
    name = ["a"]

    assert listed(name, 1) is listed(name, 1)


def test_an_error_is_raised_every_time() -> None:
    made, text = memoize_last(int), "no number"

    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            made(text)
