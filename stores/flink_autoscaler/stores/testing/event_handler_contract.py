"""The tests that every event handler has to pass."""

# ruff: noqa: S101, D102 - these are tests: they assert, and their names are their documentation

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from flink_autoscaler.core.model.events import Event, EventType, ScalingReport, VertexReport
from flink_autoscaler.core.model.job import Endpoint, JobKey, JobStatus
from flink_autoscaler.core.model.numbers import INFINITY, NAN
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler

_VERTEX = "a6b7102b8d3e3a9564998c1ffeb5e2b7"
_HALF_HOUR = Duration(30 * 60 * 1_000_000_000)
_THREADS = 8
_ROUNDS = 5


class RecordedEvent(NamedTuple):
    """An event or scaling report as somebody sees it who reads what a handler has written."""

    reason: str
    text: str


def a_context(job_key: JobKey = "cluster/orders") -> JobAutoScalerContext:
    """Make the context of a running job."""
    return JobAutoScalerContext(job_key, "0" * 32, JobStatus.RUNNING, {}, Endpoint("http://localhost:1"))


def a_report(*, is_executed: bool, new: int = 4) -> ScalingReport:
    """Make a scaling report about one vertex whose target rate is not known."""
    header = "Scaling execution enabled:" if is_executed else "Scaling execution disabled by config x:false:"
    text = f"{header}{{ Vertex ID {_VERTEX} | Parallelism 2 -> {new} }}"
    vertices = {_VERTEX: VertexReport("Source: orders", 2, new, 100.0, INFINITY, NAN)}
    return ScalingReport(is_executed, header, vertices, text, f"hash-{new}", _HALF_HOUR)


class AutoScalerEventHandlerContract(ABC):
    """Contract of every :class:`AutoScalerEventHandler`."""

    @abstractmethod
    def make_handler(self) -> AutoScalerEventHandler:
        """Make a handler that has not seen any event. Called once per test."""

    @abstractmethod
    def recorded(self, handler: AutoScalerEventHandler, job_key: JobKey) -> Sequence[RecordedEvent]:
        """Return what was recorded for a job, oldest first, a merged repetition once, a report once."""

    @pytest.fixture
    def handler(self) -> Iterator[AutoScalerEventHandler]:
        handler = self.make_handler()
        yield handler
        handler.close()

    @pytest.mark.parametrize("event_type", list(EventType))
    @pytest.mark.parametrize("key", [None, "key", "k" * 500])
    @pytest.mark.parametrize("interval", [None, _HALF_HOUR])
    def test_an_event_is_recorded(
        self, handler: AutoScalerEventHandler, event_type: EventType, key: str | None, interval: Duration | None
    ) -> None:
        handler.handle_event(a_context(), Event(event_type, "Reason", "Text.", key, interval))

        assert list(self.recorded(handler, a_context().job_key)) == [RecordedEvent("Reason", "Text.")]

    @pytest.mark.parametrize("message", ["", "two\nlines", "\u00e9\u4e16\U0001f680", "{'%s'} {} \\", "long " * 500])
    def test_messages_are_kept_to_the_letter(self, handler: AutoScalerEventHandler, message: str) -> None:
        handler.handle_event(a_context(), Event(EventType.NORMAL, "Reason", message))

        assert list(self.recorded(handler, a_context().job_key)) == [RecordedEvent("Reason", message)]

    @pytest.mark.parametrize("value", [0.0, -1.5, NAN, INFINITY])
    def test_figures_of_any_kind_disturb_nothing(self, handler: AutoScalerEventHandler, value: float) -> None:
        figures = (("saved", value), ("n" * 200, 1.0))

        for _ in range(2):
            handler.handle_event(
                a_context(), Event(EventType.NORMAL, "Reason", "Text.", "key", _HALF_HOUR, figures=figures)
            )

        assert set(self.recorded(handler, a_context().job_key)) == {RecordedEvent("Reason", "Text.")}

    def test_events_without_an_interval_are_all_recorded(self, handler: AutoScalerEventHandler) -> None:
        for _ in range(3):
            handler.handle_event(a_context(), Event(EventType.WARNING, "Reason", "Text.", "key"))

        assert len(self.recorded(handler, a_context().job_key)) == 3  # noqa: PLR2004

    def test_a_repetition_within_the_interval_does_no_harm(self, handler: AutoScalerEventHandler) -> None:
        for _ in range(3):
            handler.handle_event(a_context(), Event(EventType.WARNING, "Reason", "Text.", "key", _HALF_HOUR))

        assert set(self.recorded(handler, a_context().job_key)) == {RecordedEvent("Reason", "Text.")}

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(Event(EventType.NORMAL, "Other", "Text 2.", "key", _HALF_HOUR), id="reason"),
            pytest.param(Event(EventType.NORMAL, "Reason", "Text 2.", "other", _HALF_HOUR), id="key"),
            pytest.param(Event(EventType.NORMAL, "Reason", "Text 2.", None, _HALF_HOUR), id="message, without a key"),
        ],
    )
    def test_different_events_are_both_recorded(self, handler: AutoScalerEventHandler, other: Event) -> None:
        first = Event(EventType.NORMAL, "Reason", "Text 1.", None if other.key is None else "key", _HALF_HOUR)

        handler.handle_event(a_context(), first)
        handler.handle_event(a_context(), other)

        assert [event.text for event in self.recorded(handler, a_context().job_key)] == ["Text 1.", "Text 2."]

    def test_jobs_are_kept_apart(self, handler: AutoScalerEventHandler) -> None:
        event = Event(EventType.NORMAL, "Reason", "Text.", "key", _HALF_HOUR)

        handler.handle_event(a_context("one"), event)
        handler.handle_event(a_context("two"), event)

        assert list(self.recorded(handler, "one")) == list(self.recorded(handler, "two"))
        assert list(self.recorded(handler, "one")) == [RecordedEvent("Reason", "Text.")]

    def test_executed_reports_are_all_recorded(self, handler: AutoScalerEventHandler) -> None:
        report = a_report(is_executed=True)

        handler.handle_scaling_report(a_context(), report)
        handler.handle_scaling_report(a_context(), report)

        assert list(self.recorded(handler, a_context().job_key)) == [RecordedEvent("ScalingReport", report.text)] * 2

    def test_a_changed_recommendation_is_recorded_within_the_interval(self, handler: AutoScalerEventHandler) -> None:
        first, second = a_report(is_executed=False, new=4), a_report(is_executed=False, new=5)

        handler.handle_scaling_report(a_context(), first)
        handler.handle_scaling_report(a_context(), second)

        assert [event.text for event in self.recorded(handler, a_context().job_key)] == [first.text, second.text]

    def test_threads_report_different_jobs_at_the_same_time(self, handler: AutoScalerEventHandler) -> None:
        jobs = [f"job-{number}" for number in range(_THREADS)]

        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(lambda job_key: _report_often(handler, job_key), jobs))

        assert [len(self.recorded(handler, job_key)) for job_key in jobs] == [2 * _ROUNDS] * _THREADS


def _report_often(handler: AutoScalerEventHandler, job_key: JobKey) -> None:
    for _ in range(_ROUNDS):
        handler.handle_event(a_context(job_key), Event(EventType.NORMAL, "Reason", "Text."))
        handler.handle_scaling_report(a_context(job_key), a_report(is_executed=True))
