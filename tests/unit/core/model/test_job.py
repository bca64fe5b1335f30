from __future__ import annotations

import pickle

import pytest

from flink_autoscaler.core.model.events import NamedFigures, Reason
from flink_autoscaler.core.model.job import Endpoint, JobStatus, effective_status
from testkit.builders.core import a_context


@pytest.mark.parametrize(
    ("state", "tasks", "expected"),
    [
        pytest.param("RUNNING", {"total": 4, "running": 4}, JobStatus.RUNNING, id="all tasks run"),
        pytest.param("RUNNING", {"total": 4, "running": 3, "finished": 1}, JobStatus.RUNNING, id="some have finished"),
        pytest.param("RUNNING", {"total": 4, "running": 3, "scheduled": 1}, JobStatus.CREATED, id="one is scheduled"),
        pytest.param("RUNNING", {"total": 4, "initializing": 4}, JobStatus.CREATED, id="none runs yet"),
        pytest.param("RUNNING", {}, JobStatus.RUNNING, id="no tasks"),
        pytest.param("RESTARTING", {"total": 4, "running": 1}, JobStatus.RESTARTING, id="other states pass through"),
        pytest.param("FINISHED", {"total": 4, "finished": 4}, JobStatus.FINISHED, id="finished"),
        pytest.param("HIBERNATING", {}, JobStatus.UNKNOWN, id="a state of the future"),
    ],
)
def test_effective_status_is_running_only_when_all_tasks_are(
    state: str, tasks: dict[str, int], expected: JobStatus
) -> None:
    assert effective_status(state, tasks) is expected


@pytest.mark.parametrize("status", list(JobStatus))
def test_only_three_states_are_terminal(status: JobStatus) -> None:
    assert status.is_terminal is (status.value in {"FAILED", "CANCELED", "FINISHED"})


def test_a_context_travels_without_what_is_derived() -> None:
    context = a_context({"metrics.window": "9 s"})
    assert context.options.metrics_window.seconds == 9

    travelled = pickle.loads(pickle.dumps(context))

    assert travelled == context
    assert "options" not in travelled.__dict__
    assert travelled.options.metrics_window.seconds == 9


def test_headers_do_not_show_in_the_text_of_an_endpoint() -> None:
    endpoint = Endpoint("http://localhost", headers=(("Authorization", "Bearer secret"),))

    assert "secret" not in repr(endpoint)


PAIRS = (("factor", 1.5), ("wanted", 3.0))


def test_named_figures_are_pairs() -> None:
    figures = NamedFigures(("factor", "wanted"), (1.5, 3.0))

    assert tuple(figures) == PAIRS
    assert dict(figures) == dict(PAIRS)
    assert (len(figures), figures[1], figures[-1:]) == (2, PAIRS[1], PAIRS[1:])
    assert tuple(pickle.loads(pickle.dumps(figures))) == PAIRS
    assert Reason("SIZED", "text", figures=figures) == Reason("SIZED", "text")


def test_as_many_values_as_names_are_needed() -> None:
    with pytest.raises(ValueError, match="shorter"):
        dict(NamedFigures(("factor", "wanted"), (1.5,)))
