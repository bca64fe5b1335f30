"""The tests that every provider of TaskManagers has to pass.

Needs pytest. Subclass the class in a test module and say how an instance is made and what it has started::

    class TestCommandProvider(TaskManagerProviderContract):
        def make_provider(self) -> TaskManagerProvider:
            return CommandProvider(self.spec)
"""

# ruff: noqa: S101, D102, PLR2004 - these are tests: they assert, and their names are their documentation

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress

import pytest

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.ports.task_managers import OperationState, Progress, TaskManagerProvider

_PATIENCE = 20.0
_POLL = 0.02


class TaskManagerProviderContract(ABC):
    """Contract of every :class:`TaskManagerProvider`."""

    @abstractmethod
    def make_provider(self) -> TaskManagerProvider:
        """Make a provider that may have up to four TaskManagers; over those that others made in the same test."""

    @abstractmethod
    def running(self) -> int:
        """Return how many TaskManagers there really are; none at the start of a test."""

    @pytest.fixture
    def provider(self) -> Iterator[TaskManagerProvider]:
        provider = self.make_provider()
        yield provider
        with suppress(RealizeError):
            provider.set_desired(0)
        provider.close()

    @pytest.mark.parametrize("count", [1, 4])
    def test_so_many_are_there_when_the_operation_is_done(self, provider: TaskManagerProvider, count: int) -> None:
        state = ended(provider, provider.set_desired(count))

        assert state.progress is Progress.DONE
        assert self.running() == count
        assert provider.describe().desired == count

    def test_the_count_is_absolute(self, provider: TaskManagerProvider) -> None:
        for count in (3, 1, 2):
            ended(provider, provider.set_desired(count))

        assert self.running() == 2

    def test_the_same_count_twice_changes_nothing(self, provider: TaskManagerProvider) -> None:
        ended(provider, provider.set_desired(2))
        before = provider.describe()

        state = ended(provider, provider.set_desired(2))

        assert state.progress is Progress.DONE
        assert provider.describe() == before
        assert self.running() == 2

    def test_all_can_go(self, provider: TaskManagerProvider) -> None:
        ended(provider, provider.set_desired(2))

        ended(provider, provider.set_desired(0))

        assert self.running() == 0

    @pytest.mark.parametrize("count", [-1, 5])
    def test_a_count_beyond_the_limits_is_refused(self, provider: TaskManagerProvider, count: int) -> None:
        ended(provider, provider.set_desired(1))

        with pytest.raises(RealizeError, match="limits"):
            provider.set_desired(count)

        assert self.running() == 1

    def test_the_limits_are_described(self, provider: TaskManagerProvider) -> None:
        assert (provider.describe().minimum, provider.describe().maximum) == (0, 4)

    def test_victims_that_are_not_its_own_are_ignored(self, provider: TaskManagerProvider) -> None:
        ended(provider, provider.set_desired(2))

        state = ended(provider, provider.set_desired(1, ["somebody-elses"]))

        assert state.progress is Progress.DONE
        assert self.running() == 1

    def test_an_unknown_operation_has_failed(self, provider: TaskManagerProvider) -> None:
        assert provider.operation("no-such-operation").progress is Progress.FAILED

    def test_taskmanagers_outlive_the_provider_and_belong_to_the_next(self) -> None:
        first, second = self.make_provider(), self.make_provider()
        ended(first, first.set_desired(3))
        first.close()

        ended(second, second.set_desired(1))

        assert self.running() == 1
        ended(second, second.set_desired(0))
        second.close()

    def test_close_may_be_called_twice(self) -> None:
        provider = self.make_provider()

        provider.close()
        provider.close()


def ended(provider: TaskManagerProvider, operation_id: str) -> OperationState:
    """Wait for the end of an operation."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        state = provider.operation(operation_id)
        if state.progress is not Progress.PENDING:
            return state
        time.sleep(_POLL)
    raise AssertionError(f"operation {operation_id} is still pending after {_PATIENCE} s")
