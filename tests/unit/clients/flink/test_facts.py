"""What is asked about a rescale that may be over, with the answers of Flink 2.3."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.clients.flink import decode_facts as facts_decode
from flink_autoscaler.clients.flink.facts import read_rescale_status
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import RefusedError
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision
from flink_autoscaler.core.model.topology import IoMetrics, JobDetails, VertexDetails
from flink_autoscaler.core.observe.required_facts import RequiredFacts
from flink_autoscaler.core.ports.passes import PassRequest
from testkit.builders.core import a_context, a_request

FIXTURES = Path(__file__).parents[3] / "fixtures" / "flink-2.3"
HISTORY = json.loads((FIXTURES / "rescales_history.json").read_text())
DETAILS = json.loads((FIXTURES / "rescales_details.json").read_text())

JOB, WORK = "a" * 32, "b" * 32
STOPPED, CREATED, RUNNING = 1795203870571, 1795203870657, 1795203870908
"""As recorded: the scheduler left Executing, the next execution graph was made, and its last task ran."""


@dataclass
class Answers:
    """A transport that has some answers by the end of the path; everything else is not found."""

    answers: Mapping[str, object]
    asked: list[str] = field(default_factory=list)
    url: str = "http://jobmanager:8081"

    async def get_json(
        self, path: str, *, params: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> object:
        self.asked.append(path)
        for end, answer in self.answers.items():
            if path.endswith(end):
                return answer
        raise RefusedError("not found", 404)

    async def get_all_json(
        self, asked: Sequence[tuple[str, Mapping[str, str]]], *, timeout: float | None = None
    ) -> list[object]:
        return [await self.get_json(path, params=params) for path, params in asked]

    async def put_json(self, path: str, body: object, *, timeout: float | None = None) -> object:
        raise AssertionError("facts are only read")

    async def aclose(self) -> None:
        """Have nothing to close."""


def vertex_answer(since_ms: int) -> dict[str, Any]:
    subtasks = [{"status": "RUNNING", "status-duration": {"RUNNING": 100}}]
    return {"now": since_ms + 100, "subtasks": subtasks}


def details(parallelism: int) -> JobDetails:
    vertex = VertexDetails(WORK, "work", parallelism, 128, "RUNNING", IoMetrics(), is_settled=True)
    return JobDetails(JOB, "grows", "RUNNING", CREATED, (vertex,), (), created_ms=CREATED)


def a_followed(stage: Stage) -> PassRequest:
    record = RescaleRecord(1, 1, {WORK: 2}, {WORK: 4}, stage=stage)
    context = replace(a_context(), job_id=JOB)
    return a_request(context, state=JobState(supervision=Supervision(current=record)), now_ms=2)


def read(transport: Answers, *, stage: Stage = Stage.PENDING, parallelism: int = 4) -> RescaleFacts:
    request = a_followed(stage)
    client = FlinkRestClient(request.context.endpoint, transport)
    return asyncio.run(read_rescale_status(client, request, details(parallelism), RequiredFacts.EVERYTHING))


def test_the_history_of_the_cluster_tells_when_the_execution_before_was_stopped() -> None:
    answers = {"/rescales/history": HISTORY, HISTORY[0]["rescaleUuid"]: DETAILS, WORK: vertex_answer(RUNNING)}

    facts = read(Answers(answers))

    assert (facts.stopped_ms, facts.running_since_ms) == (STOPPED, RUNNING)


@pytest.mark.parametrize(("lower", "upper"), [(0, 2), (3, 2), (1, 2**53 + 1), (-(2**63), 2), (1_790_000_000_000, 4)])
def test_bounds_that_flink_would_have_refused_are_unknown(lower: int, upper: int) -> None:
    facts = read(
        Answers({"/resource-requirements": {WORK: {"parallelism": {"lowerBound": lower, "upperBound": upper}}}})
    )

    assert facts.requirements is None
    assert f"{lower}..{upper} subtasks" in facts.missing["requirements"]


@pytest.mark.parametrize(
    "answers",
    [{}, {"/rescales/history": []}, {"/rescales/history": HISTORY[1:]}, {"/rescales/history": HISTORY}],
    ids=["Flink 1.20", "history switched off", "other rescales", "no details"],
)
def test_without_that_history_the_new_execution_tells_it(answers: dict[str, object]) -> None:
    facts = read(Answers({**answers, WORK: vertex_answer(RUNNING)}))

    assert (facts.stopped_ms, facts.running_since_ms) == (CREATED, RUNNING)


@pytest.mark.parametrize(
    ("stage", "parallelism", "is_asked"),
    [
        pytest.param(Stage.PENDING, 4, True, id="pending and there"),
        pytest.param(Stage.REQUESTED, 4, True, id="there before it was seen to be accepted"),
        pytest.param(Stage.PENDING, 2, False, id="nothing has changed"),
        pytest.param(Stage.REACHED, 4, False, id="over"),
    ],
)
def test_times_are_asked_for_when_the_job_may_run_as_it_was_asked_to(
    stage: Stage, parallelism: int, is_asked: bool
) -> None:
    transport = Answers({WORK: vertex_answer(RUNNING)})

    read(transport, stage=stage, parallelism=parallelism)

    assert any(path.endswith(WORK) for path in transport.asked) is is_asked


def test_the_history_is_decoded() -> None:
    attempts = facts_decode.rescale_attempts(HISTORY)

    assert [each.cause for each in attempts] == ["UPDATE_REQUIREMENT", "UPDATE_REQUIREMENT", "INITIAL_SCHEDULE"]
    assert [each.led_to(CREATED) for each in attempts] == [True, False, False]
    assert attempts[0].rescale_id == HISTORY[0]["rescaleUuid"]


@pytest.mark.parametrize(
    ("states", "stopped_ms"),
    [
        pytest.param([("Executing", 5), ("Restarting", 6)], 5, id="a rescale"),
        pytest.param([("Created", 5), ("WaitingForResources", 6)], None, id="the first start"),
        pytest.param([("Executing", 0)], None, id="not stopped yet"),
        pytest.param([], None, id="nothing told"),
    ],
)
def test_a_stop_is_when_the_scheduler_left_the_state_executing(
    states: list[tuple[str, int]], stopped_ms: int | None
) -> None:
    answer = {"schedulerStates": [{"state": name, "leaveTimestampInMillis": left} for name, left in states]}

    assert facts_decode.rescale_stopped(answer) == stopped_ms


def test_both_exceptions_of_a_job_that_lacks_network_memory_are_read() -> None:
    answer = json.loads((FIXTURES / "exceptions_network_memory.json").read_text())

    texts = [each.text for each in facts_decode.exceptions(answer)]

    assert "Insufficient number of network buffers" in texts[0]
    assert "Timeout triggered when requesting exclusive buffers" in texts[1]
