"""The tests that every realizer has to pass.

Needs pytest. Subclass the class in a test module and say how an instance is made and what it has changed::

    class TestLogOnlyRealizer(ScalingRealizerContract):
        def make_realizer(self) -> ScalingRealizer:
            return LogOnlyRealizer()
"""

# ruff: noqa: S101, D102 - these are tests: they assert, and their names are their documentation

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import Realization, RealizeResult, ScalingRealizer

UNKNOWN_VERTEX = "f" * 32
_CHANGES = ConfigChanges({"taskmanager.memory.process.size": "1 gb"}, ("taskmanager.memory.size",))
_THREADS = 8


class ScalingRealizerContract(ABC):
    """Contract of every :class:`ScalingRealizer`."""

    @abstractmethod
    def make_realizer(self) -> ScalingRealizer:
        """Make a realizer. Called once per test, before anything else."""

    @abstractmethod
    def running_job(self) -> JobAutoScalerContext:
        """Return the context of a job that runs and can be rescaled, and whose vertices are :meth:`vertices`."""

    @abstractmethod
    def vertices(self) -> Sequence[str]:
        """Return the ids of that job's vertices; each can run with a parallelism of 1 to 4."""

    @abstractmethod
    def changes(self) -> Sequence[object]:
        """Return what the outside was asked to change since :meth:`make_realizer`, oldest first."""

    @pytest.fixture
    def realizer(self) -> Iterator[ScalingRealizer]:
        realizer = self.make_realizer()
        yield realizer
        realizer.close()

    @pytest.mark.parametrize("parallelism", [1, 3, 4])
    def test_the_second_call_does_nothing(self, realizer: ScalingRealizer, parallelism: int) -> None:
        overrides = dict.fromkeys(self.vertices(), parallelism)
        realizer.realize_overrides(self.running_job(), overrides)
        changes = list(self.changes())

        second = realizer.realize_overrides(self.running_job(), overrides)

        assert second == Realization(RealizeResult.UNCHANGED)
        assert list(self.changes()) == changes

    def test_what_was_requested_is_told(self, realizer: ScalingRealizer) -> None:
        overrides = dict.fromkeys(self.vertices(), 3)

        realization = realizer.realize_overrides(self.running_job(), overrides)

        is_requested = realization.result is RealizeResult.REQUESTED
        assert realization.requested == (overrides if is_requested else {})
        assert bool(self.changes()) is is_requested

    @pytest.mark.parametrize("status", [status for status in JobStatus if status is not JobStatus.RUNNING])
    def test_a_job_that_is_not_running_is_left_alone(self, realizer: ScalingRealizer, status: JobStatus) -> None:
        job = dataclasses.replace(self.running_job(), status=status)

        realization = realizer.realize_overrides(job, dict.fromkeys(self.vertices(), 3))
        realizer.realize_config(job, _CHANGES)

        assert realization.result is not RealizeResult.REQUESTED
        assert not self.changes()

    def test_a_job_that_has_no_id_yet_is_left_alone(self, realizer: ScalingRealizer) -> None:
        job = dataclasses.replace(self.running_job(), job_id=None, status=JobStatus.CREATED)

        realizer.realize_overrides(job, dict.fromkeys(self.vertices(), 3))

        assert not self.changes()

    def test_vertices_that_the_job_does_not_have_are_ignored(self, realizer: ScalingRealizer) -> None:
        realization = realizer.realize_overrides(self.running_job(), {UNKNOWN_VERTEX: 3})

        assert realization == Realization(RealizeResult.UNCHANGED)
        assert not self.changes()

    @pytest.mark.parametrize("unusable", [0, -1, True, 2.0, "3", None])
    def test_an_unusable_parallelism_is_never_requested(self, realizer: ScalingRealizer, unusable: object) -> None:
        overrides: dict[str, object] = {**dict.fromkeys(self.vertices(), 3), self.vertices()[0]: unusable}

        with suppress(AutoscalerError):
            realizer.realize_overrides(self.running_job(), overrides)  # type: ignore[arg-type]

        assert not self.changes()

    def test_only_autoscaler_errors_are_raised_when_the_cluster_is_away(self, realizer: ScalingRealizer) -> None:
        away = dataclasses.replace(self.running_job(), endpoint=Endpoint("http://127.0.0.1:1", timeout=1.0))

        with suppress(AutoscalerError):
            realizer.realize_overrides(away, dict.fromkeys(self.vertices(), 3))
        with suppress(AutoscalerError):
            realizer.realize_config(away, _CHANGES)

        assert not self.changes()

    def test_no_configuration_to_change_changes_nothing(self, realizer: ScalingRealizer) -> None:
        realization = realizer.realize_config(self.running_job(), ConfigChanges())

        assert realization == Realization(RealizeResult.UNCHANGED)
        assert not self.changes()

    def test_the_same_configuration_is_handled_once(self, realizer: ScalingRealizer) -> None:
        realizer.realize_config(self.running_job(), _CHANGES)
        changes = list(self.changes())

        second = realizer.realize_config(self.running_job(), _CHANGES)

        assert second.events == ()
        assert list(self.changes()) == changes

    def test_threads_realize_different_jobs_at_the_same_time(self, realizer: ScalingRealizer) -> None:
        jobs = [dataclasses.replace(self.running_job(), job_key=f"job-{number}") for number in range(_THREADS)]
        overrides = dict.fromkeys(self.vertices(), 3)

        with ThreadPoolExecutor(_THREADS) as threads:
            realizations = list(threads.map(lambda job: realizer.realize_overrides(job, overrides), jobs))

        assert {realization.result for realization in realizations} <= {
            RealizeResult.REQUESTED,
            RealizeResult.UNCHANGED,
        }

    def test_close_may_be_called_twice(self) -> None:
        realizer = self.make_realizer()

        realizer.close()
        realizer.close()
