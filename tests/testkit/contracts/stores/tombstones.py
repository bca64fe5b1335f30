"""The tests that everything that remembers gone jobs has to pass."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pytest

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.ports.deployment import JobTombstones

_HOUR = 3600.0


class JobTombstonesContract(ABC):
    """What every :class:`JobTombstones` does."""

    @abstractmethod
    def make_tombstones(self) -> JobTombstones:
        """Make one without any marks. Called once per test."""

    def with_states(self, *job_keys: JobKey) -> None:
        """Make sure that these jobs have a state of this installation; does nothing where that does not matter."""
        del job_keys

    @pytest.fixture
    def tombstones(self) -> JobTombstones:
        tombstones = self.make_tombstones()
        self.with_states("main/a", "main/b", "other/a")
        return tombstones

    def test_nothing_is_marked_at_first(self, tombstones: JobTombstones) -> None:
        assert tombstones.marked_jobs("main") == frozenset()
        assert tombstones.due_jobs("main", 0.0) == frozenset()

    def test_marked_jobs_are_those_of_the_cluster(self, tombstones: JobTombstones) -> None:
        tombstones.mark("main", ["main/a", "main/b"])
        tombstones.mark("other", ["other/a"])

        assert tombstones.marked_jobs("main") == {"main/a", "main/b"}
        assert tombstones.marked_jobs("other") == {"other/a"}

    def test_a_job_is_due_once_its_time_has_passed(self, tombstones: JobTombstones) -> None:
        tombstones.mark("main", ["main/a"])

        assert tombstones.due_jobs("main", 0.0) == {"main/a"}
        assert tombstones.due_jobs("main", _HOUR) == frozenset()

    def test_a_job_that_is_marked_again_keeps_its_time(self, tombstones: JobTombstones) -> None:
        tombstones.mark("main", ["main/a"])

        tombstones.mark("main", ["main/a", "main/b"])

        assert tombstones.marked_jobs("main") == {"main/a", "main/b"}
        assert tombstones.due_jobs("main", 0.0) >= {"main/a"}

    def test_a_cleared_job_is_not_due(self, tombstones: JobTombstones) -> None:
        tombstones.mark("main", ["main/a", "main/b"])

        tombstones.clear("main", ["main/a"])

        assert tombstones.marked_jobs("main") == {"main/b"}
        assert tombstones.due_jobs("main", 0.0) == {"main/b"}

    def test_a_cleared_job_can_be_marked_again(self, tombstones: JobTombstones) -> None:
        tombstones.mark("main", ["main/a"])
        tombstones.clear("main", ["main/a"])

        tombstones.mark("main", ["main/a"])

        assert tombstones.marked_jobs("main") == {"main/a"}

    def test_clearing_an_unknown_job_does_nothing(self, tombstones: JobTombstones) -> None:
        tombstones.clear("main", ["main/unknown"])

        assert tombstones.marked_jobs("main") == frozenset()

    def test_nothing_to_mark_or_clear_is_fine(self, tombstones: JobTombstones) -> None:
        tombstones.mark("main", [])
        tombstones.clear("main", [])

        assert tombstones.marked_jobs("main") == frozenset()

    def test_present_jobs_are_not_unseen(self, tombstones: JobTombstones) -> None:
        assert tombstones.unseen_jobs("main", ["main/a", "main/b"], 0.0) == frozenset()
