"""The border around one entry of a list, one job, one endpoint or one plug-in.

What is raised inside ends there:

- anything may be raised. An error of ours stays as it is; anything else becomes the kind that the border was given, a
  :class:`PluginError` unless told otherwise, with its cause. What ends the work as a whole goes on its way: Ctrl-C, and
  that a task is cancelled;
- the caller goes on with the next entry, job, endpoint or plug-in, and has the error as a value;
- an error that lasts is logged once, see :class:`~flink_autoscaler.core.log_once.LogOnce`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

from flink_autoscaler.core.errors import AutoscalerError, PluginError, describe_error

T = TypeVar("T")


def wrap_error(error: Exception, kind: type[AutoscalerError] = PluginError, what: str = "") -> AutoscalerError:
    """Return an error of ours as it is, anything else as a kind of ours with its cause.

    Args:
        error: As caught.
        kind: Of what is not ours; has to take a text alone.
        what: Put before the text of what is not ours, such as ``job x``.
    """
    if isinstance(error, AutoscalerError):
        return error
    wrapped = kind(f"{what}: {describe_error(error)}" if what else describe_error(error))
    wrapped.__cause__ = error
    return wrapped


class ErrorBoundary:
    """Keeps what is raised inside from going further: ``with ErrorBoundary() as boundary:``, also around ``await``.

    Args:
        kind: What an exception that is none of ours becomes.
        what: Put before its text.

    Attributes:
        error: What was raised inside; None when nothing was.
    """

    __slots__ = ("_kind", "_what", "error")

    def __init__(self, kind: type[AutoscalerError] = PluginError, what: str = "") -> None:
        self._kind = kind
        self._what = what
        self.error: AutoscalerError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = wrap_error(error, self._kind, self._what)
        return True


def try_call(action: Callable[[], T], kind: type[AutoscalerError] = PluginError, what: str = "") -> T | AutoscalerError:
    """Return what a call returns, or the error that it ended with."""
    try:
        return action()
    except Exception as error:
        return wrap_error(error, kind, what)


async def try_await(
    answer: Awaitable[T], kind: type[AutoscalerError] = PluginError, what: str = ""
) -> T | AutoscalerError:
    """Return what an awaitable gives, or the error that it ended with."""
    try:
        return await answer
    except Exception as error:
        return wrap_error(error, kind, what)
