"""Recorded passes as text and back."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import JobGoneError, MissingMetricError, StoreError
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import MetricSample, NonBusyTime, ScalingMetric
from flink_autoscaler.core.model.numbers import INFINITY, NAN
from flink_autoscaler.core.model.reading import EMPTY_MEMORY, CollectorMemory, JobReading
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.standalone.records import codec as record_codec
from flink_autoscaler.standalone.records.codec import (
    decode,
    encode,
    read_export,
    read_samples,
    samples_document,
    to_document,
)
from flink_autoscaler.standalone.settings.secrets import MASK, is_sensitive
from flink_autoscaler.stores.testing.store_contract import same_state
from testkit.builders.core import a_context
from testkit.contracts.recorded_passes import SCENARIOS, RecordedJob, misconfigured, scaled_up

FIXTURES = Path(__file__).parents[3] / "fixtures"


def as_text(document: object) -> str:
    return base64.b64encode(zlib.compress(json.dumps(document).encode())).decode()


def kept(request: PassRequest, outcome: PassOutcome) -> tuple[object, ...]:
    """Return what of a pass has to come back to the letter; a repr makes unknown numbers equal."""
    unsampled = replace(outcome.observation, sample=None)
    settled = replace(
        outcome, inputs=None, undecided=None, report=None, memory=EMPTY_MEMORY, error=None, observation=unsampled
    )
    bare = replace(request, context=a_context(), memory=EMPTY_MEMORY, recorded=None)
    return repr(settled), repr(bare), repr(outcome.error)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_record_comes_back_as_it_was(scenario: str) -> None:
    for record in SCENARIOS[scenario]().records:
        read = decode(encode(record))

        assert kept(read.request, read.outcome) == kept(record.request, record.outcome)
        assert same_state(read.outcome.state, record.outcome.state)
        assert same_state(read.request.state, record.request.state)
        assert read.is_complete


def test_a_pass_with_half_a_character_and_numbers_without_end_is_recorded() -> None:
    record = scaled_up().records[-1]
    state = replace(record.request.state, job_id="half \ud800")
    context = replace(record.request.context, configuration={"some.key": "half \udfff"})
    outcome = replace(record.outcome, seconds={"half \ud800": INFINITY})
    record = replace(record, request=replace(record.request, state=state, context=context), outcome=outcome)

    read = decode(encode(record))

    assert read.request.state.job_id == "half ?"
    assert read.request.context.configuration["some.key"] == "half ?"
    assert read.outcome.phase == record.outcome.phase
    assert same_state(read.outcome.state, record.outcome.state)


def test_what_the_cluster_answered_comes_back_without_what_only_the_collector_needs() -> None:
    record = scaled_up().records[-1]
    inputs = record.outcome.inputs
    assert inputs is not None
    assert inputs.reading is not None
    full = CollectorMemory({"v": {"0.busy": next(iter(ScalingMetric))}}, {"v": 3}, 5, True)  # type: ignore[dict-item]
    record = replace(
        record, outcome=replace(record.outcome, inputs=replace(inputs, reading=replace(inputs.reading, memory=full)))
    )

    read = decode(encode(record)).outcome.inputs

    assert read is not None
    assert read.reading is not None
    assert read.reading.memory == CollectorMemory({}, {"v": 3}, 5, True)
    assert replace(read.reading, memory=full) == replace(inputs.reading, memory=full)
    assert read.cluster == inputs.cluster


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(MissingMetricError("v", "busy"), id="several parts"),
        pytest.param(JobGoneError("HTTP 404", 404, "gone"), id="a status"),
    ],
)
def test_errors_come_back_with_what_they_know(error: MissingMetricError | JobGoneError) -> None:
    job = RecordedJob()
    job.look(JobReading(None, error=error))

    read = decode(encode(job.records[-1])).outcome

    assert read.inputs is not None
    assert read.inputs.reading is not None
    for found in (read.error, read.inputs.reading.error):
        assert type(found) is type(error)
        assert vars(found) == vars(error)


def test_a_foreign_error_comes_back_as_its_text() -> None:
    class ForeignError(StoreError):
        pass

    record = scaled_up().records[-1]
    record = replace(record, outcome=replace(record.outcome, error=ForeignError("full")))

    assert str(decode(encode(record)).outcome.error) == "full"


def test_secrets_are_masked_as_in_the_log() -> None:
    record = misconfigured().records[0]
    text = "jdbc:x?password=hunter2"
    record = replace(record, request=replace(record.request, refusal=text))

    document = to_document(record)

    configuration = document["request"]["context"]["configuration"]
    assert configuration["s3.secret-key"] == MASK
    assert configuration["x"] == f"a://{MASK}@host"
    assert document["request"]["refusal"] == f"jdbc:x?password={MASK}"
    assert "hunter2" not in json.dumps(document)


@pytest.mark.parametrize(
    "text",
    [
        "s3://user:hunter2@bucket",
        "PASSWORD=hunter2",
        "the pwd: hunter2",
        "ClientSecret=hunter2",
        "token = hunter2",
        "apiKey=hunter2",
        "api-key:hunter2",
        "Authorization: Basic hunter2hunter2",
        "bearer hunter2hunter2",
        "Negotiate hunter2hunter2",
        "pa\u017f\u017fword=hunter2",
    ],
)
def test_every_kind_of_secret_is_looked_for(text: str) -> None:
    """Most texts are told by a quick look to have none."""
    record = scaled_up().records[-1]
    outcome = replace(record.outcome, error=StoreError(text))
    record = replace(record, request=replace(record.request, refusal=f"no: {text}"), outcome=outcome)

    assert "hunter2" not in json.dumps(to_document(record))


def test_no_option_that_the_core_reads_is_ever_masked() -> None:
    declared = [*AutoscalerOptions.all_options(), *FlinkOptions.all_options()]

    assert [key for option in declared for key in option.keys if is_sensitive(key)] == []


def test_an_export_is_plain_json() -> None:
    record = scaled_up().records[2]
    data = json.dumps(to_document(record), allow_nan=False).encode()

    assert isinstance(read_export(data).outcome.decision, Rescale)


def test_a_record_of_an_earlier_build_is_read_and_written_as_it_was() -> None:
    exported = (FIXTURES / "records" / "scaled-up.json").read_bytes()

    assert to_document(read_export(exported)) == json.loads(exported)


def test_a_record_that_is_too_large_loses_what_replaying_needs() -> None:
    record = scaled_up().records[2]

    read = decode(encode(record, limit=1000))

    assert not read.is_complete
    assert read.request.state.samples == read.outcome.state.samples == ()
    assert read.outcome.inputs is None
    assert read.outcome.decision.reasons == record.outcome.decision.reasons
    assert read.outcome.observation.topology == record.outcome.observation.topology


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "cut off", id="empty"),
        pytest.param("ä", "cannot be read", id="not base64"),
        pytest.param("aGVsbG8=", "cannot be read", id="not compressed"),
        pytest.param(as_text({"version": 1})[:-8], "cannot be read|cut off", id="cut off"),
        pytest.param(as_text([1]), "not a JSON object", id="a list"),
        pytest.param(as_text({"version": 99}), "version 99", id="a later version"),
        pytest.param(as_text({"version": 1}), "cannot be read: KeyError", id="parts are missing"),
        pytest.param(base64.b64encode(zlib.compress(b"[" * 100_000)).decode(), "cannot be read", id="too deep"),
    ],
)
def test_what_is_no_record_is_refused(text: str, problem: str) -> None:
    with pytest.raises(StoreError, match=problem):
        decode(text)


def test_a_small_text_does_not_become_an_endless_record() -> None:
    bomb = base64.b64encode(zlib.compress(b" " * (record_codec.READ_LIMIT + 1))).decode()

    with pytest.raises(StoreError, match="longer than 64 MiB"):
        decode(bomb)


@pytest.mark.parametrize("name", ["dict", "__import__", "StoreError.__init__", "Option"])
def test_only_errors_of_the_core_are_made(name: str) -> None:
    document = to_document(scaled_up().records[2])
    document["outcome"]["error"] = [name, "x"]

    with pytest.raises(StoreError, match="cannot be read"):
        decode(as_text(document))


def test_damage_is_described_without_values() -> None:
    document = to_document(scaled_up().records[2])
    document["request"]["now_ms"] = "hunter2"

    with pytest.raises(StoreError, match=r"request\.now_ms") as caught:
        decode(as_text(document))
    assert "hunter2" not in str(caught.value)


def test_windows_share_their_samples_and_keep_what_is_absent_apart_from_unknown() -> None:
    first = MetricSample(1, {"a": {ScalingMetric.LAG: NAN, ScalingMetric.LOAD: 0.5}, "b": {}}, {}, frozenset({"b"}))
    second = MetricSample(2, {"a": {ScalingMetric.LAG: INFINITY}}, {ScalingMetric.GC_PRESSURE: -INFINITY})
    third = MetricSample(3, {"b": {ScalingMetric.LAG: 1.0}}, {}, waited={"b": NonBusyTime(9.0, 1.5)})

    document, order = samples_document((first, second), (second, third))
    before, after = read_samples(json.loads(json.dumps(document, allow_nan=False)), order)

    assert order == [[0, 1], [1, 2]]
    assert same_state(before, (first, second))
    assert same_state(after, (second, third))


def test_a_window_without_samples_is_nothing() -> None:
    assert read_samples(*samples_document((), ())) == ((), ())
