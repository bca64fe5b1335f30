"""Where the values of a pass came from, through all that keeps or shows them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.model.metrics import FlinkMetric
from flink_autoscaler.core.model.reading import Origins
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.ports.passes import PassInputs, PassRequest
from flink_autoscaler.pipeline.spark.codec import decode_outcome, encode_outcome
from flink_autoscaler.pipeline.tables.rows import rows_of
from flink_autoscaler.standalone.cli.output import print_sections
from flink_autoscaler.standalone.records.codec import PassRecord, decode, encode
from flink_autoscaler.standalone.views.explanation import explain_pass, pass_view
from flink_autoscaler.standalone.views.explanation_text import explanation_sections
from testkit.builders.core import MINUTE as CORE_MINUTE
from testkit.builders.core import JobDriver, a_cluster, a_context, pipeline
from testkit.builders.core.pipeline import PIPELINE_SOURCE
from testkit.contracts.recorded_passes import SOURCE, scaled_up

ORIGINS: Origins = {SOURCE: {FlinkMetric.PENDING_RECORDS: "kafka"}}


def record() -> PassRecord:
    """Return a pass whose lag came from elsewhere."""
    last = scaled_up().records[-1]
    inputs = last.outcome.inputs
    assert inputs is not None
    assert inputs.reading is not None
    reading = replace(inputs.reading, origins=ORIGINS)
    return replace(
        last,
        outcome=replace(
            last.outcome,
            observation=replace(last.outcome.observation, origins=ORIGINS),
            inputs=PassInputs(reading, inputs.cluster),
        ),
    )


def test_an_outcome_says_where_the_values_of_its_reading_came_from() -> None:
    request = PassRequest(a_context(), EMPTY_STATE, CORE_MINUTE)

    reading = pipeline(1, pending=0.0, rate=100.0, busy_ms=(500.0, 800.0))
    outcome = advance(request, replace(reading, origins=ORIGINS), a_cluster())

    assert outcome.observation.origins == ORIGINS
    assert decode_outcome(encode_outcome(outcome, request), request).observation.origins == ORIGINS


def test_a_recorded_pass_keeps_where_values_came_from() -> None:
    read = decode(encode(record())).outcome

    assert read.observation.origins == ORIGINS
    assert read.inputs is not None
    assert read.inputs.reading is not None
    assert read.inputs.reading.origins == ORIGINS


def test_an_explanation_names_only_what_did_not_come_over_rest(capsys: pytest.CaptureFixture[str]) -> None:
    print_sections(explanation_sections(explain_pass(record())))
    told = capsys.readouterr().out
    print_sections(explanation_sections(explain_pass(scaled_up().records[-1])))
    untold = capsys.readouterr().out

    assert "Source: orders: pending records from kafka" in told
    assert "not from Flink's REST API" not in untold


def test_the_document_of_an_explanation_has_origins_by_metric() -> None:
    document = pass_view(explain_pass(record())).model_dump()

    assert [each["origins"] for each in document["vertices"]] == [{"PENDING_RECORDS": "kafka"}, {}, {}]


def test_the_history_has_origins_of_a_vertex() -> None:
    reading = pipeline(1, pending=0.0, rate=100.0, busy_ms=(500.0, 800.0))
    outcome = JobDriver(a_context()).run(CORE_MINUTE, reading)
    origins = {PIPELINE_SOURCE: {FlinkMetric.PENDING_RECORDS: "kafka"}}
    outcome = replace(outcome, observation=replace(outcome.observation, origins=origins))

    rows = [row for name, row in rows_of(outcome, a_context(), CORE_MINUTE, span_ms=60_000) if name == "vertices"]

    assert [row["origins"] for row in rows] == [[{"metric": "PENDING_RECORDS", "origin": "kafka"}], []]
