"""Texts as the Java process writes and reads them."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from flink_autoscaler.core.model.metrics import EvaluatedMetric, MetricSample, ScalingMetric
from flink_autoscaler.core.model.numbers import INFINITY, NAN
from flink_autoscaler.core.model.state import (
    ConfigChanges,
    DelayedRecommendation,
    DelayedVertex,
    HistoryEntry,
    ScalingRecord,
    ScalingSummary,
)
from flink_autoscaler.stores.sql.state.codec import KINDS, DocumentError, StateType, decode, encode
from flink_autoscaler.stores.sql.state.instants import instant_text, parse_instant, parse_seconds
from flink_autoscaler.stores.sql.state.windows import WindowTexts
from flink_autoscaler.stores.testing.store_contract import full_state, same_state
from testkit.servers.databases.reader_rules import check_readable

SAMPLES = Path(__file__).parents[4] / "fixtures" / "jdbc-java"
UNUSUAL, NORMAL, EMPTY = "3de64ea3323f03de0a24165dcc2f506b", "53f2be87e462401f4e4248df258a83f5", "0" * 29 + "c0c"
V1, V2, V3 = "431c11b7410a217cf29a345eb02981d0", "9f6d7fd1e69105de88900ba5047ec5a1", "afa3664e2d13439221e8d041382a4dc1"
AT_MS = 1_795_184_620_000  # 2026-11-20T14:23:40Z
TYPES = list(StateType)


def java_rows(database: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((SAMPLES / f"state_store_{database}.json").read_text())["rows"]
    return rows


def java_part(job_key: str, state_type: StateType, database: str = "postgres") -> Any:
    texts = {(row["job_key"], row["state_type"]): row["state_value"] for row in java_rows(database)}
    decoded = decode(state_type, texts[job_key, state_type])
    assert decoded.problem is None
    return decoded.part


def as_java(part: Any) -> Any:
    """Drop what is deliberately not written back: negative durations."""
    if isinstance(part, tuple) and part and isinstance(part[0], ScalingRecord):
        return tuple(record._replace(restart_ms=None) if (record.restart_ms or 0) < 0 else record for record in part)
    return part


@pytest.mark.parametrize("database", ["postgres", "mysql"])
def test_every_value_of_the_java_process_is_read_and_written_so_that_it_reads_it_again(database: str) -> None:
    for row in java_rows(database):
        state_type = StateType(row["state_type"])
        decoded = decode(state_type, row["state_value"])

        text = KINDS[state_type].shape.write(decoded.part)

        assert decoded.problem is None
        check_readable(state_type, text)
        assert same_state(decode(state_type, text).part, as_java(decoded.part))


@pytest.mark.parametrize("state_type", TYPES)
def test_empty_values_of_the_java_process_are_empty(state_type: StateType) -> None:
    assert java_part(EMPTY, state_type) == KINDS[state_type].empty


def test_collected_metrics_of_the_java_process() -> None:
    first, *_ = java_part(UNUSUAL, StateType.COLLECTED_METRICS)

    assert first.at_ms == AT_MS
    assert first.vertices[V1][ScalingMetric.OBSERVED_TPR] == INFINITY
    assert first.vertices[V2][ScalingMetric.NUM_RECORDS_IN] == 1.2e9
    assert math.isnan(first.vertices[V3][ScalingMetric.LOAD])
    assert first.vertices[V3][ScalingMetric.NUM_RECORDS_OUT] == 5e-324
    assert math.copysign(1, first.vertices[V3][ScalingMetric.ACCUMULATED_BUSY_TIME]) == -1


def test_tracking_of_the_java_process() -> None:
    assert java_part(UNUSUAL, StateType.SCALING_TRACKING) == (
        ScalingRecord(AT_MS, 11_000),
        ScalingRecord(AT_MS + 90_500, 12_345),
        ScalingRecord(AT_MS + 150_123, 0),
        ScalingRecord(AT_MS + 200_123, 0),
        ScalingRecord(AT_MS + 260_123, 3_720_003),
        ScalingRecord(AT_MS + 2_179_999, -1_500),
        ScalingRecord(AT_MS + 2_180_000, None),
    )


def test_history_of_the_java_process() -> None:
    entry, *_ = java_part(NORMAL, StateType.SCALING_HISTORY)[V2]

    assert (entry.at_ms, entry.summary.current, entry.summary.new) == (AT_MS, 1, 2)
    assert same_state(entry.summary.metrics[ScalingMetric.TRUE_PROCESSING_RATE], EvaluatedMetric(NAN, 1156.4))


def test_configuration_of_the_java_process_keeps_every_character() -> None:
    changes = java_part(UNUSUAL, StateType.CONFIG_OVERRIDES)

    assert changes.overrides['custom.key "quoted" \\ back'] == "a, b: c; ünï — ☃ 𝄞\nline2\ttab"


@pytest.mark.parametrize("state_type", TYPES)
def test_an_empty_part_needs_no_row(state_type: StateType) -> None:
    assert encode(state_type, KINDS[state_type].empty) is None


@pytest.mark.parametrize(
    ("part", "state_type", "expected"),
    [
        pytest.param({V1: 4, V2: 12}, "parallelismOverrides", f"{V1}:4,{V2}:12", id="overrides"),
        pytest.param(
            (ScalingRecord(AT_MS, 61_500), ScalingRecord(AT_MS + 500)),
            "scalingTracking",
            '{"scalingRecords":{"2026-11-20T14:23:40Z":{"restartDuration":61.500000000},'
            '"2026-11-20T14:23:40.500Z":{"restartDuration":null}}}',
            id="tracking",
        ),
        pytest.param(
            (ScalingRecord(AT_MS, -500),),
            "scalingTracking",
            '{"scalingRecords":{"2026-11-20T14:23:40Z":{"restartDuration":null}}}',
            id="negative duration",
        ),
        pytest.param(
            (MetricSample(AT_MS, {V1: {ScalingMetric.LAG: NAN}}, {ScalingMetric.GC_PRESSURE: INFINITY}),),
            "collectedMetrics",
            f'{{"2026-11-20T14:23:40Z":{{"vertexMetrics":{{"{V1}":{{"LAG":"NaN"}}}},'
            '"globalMetrics":{"GC_PRESSURE":"Infinity"}}}',
            id="samples",
        ),
        pytest.param(
            {V1: (HistoryEntry(AT_MS, ScalingSummary(1, 2, {ScalingMetric.LAG: EvaluatedMetric(0.5, -INFINITY)})),)},
            "scalingHistory",
            f'{{"{V1}":{{"2026-11-20T14:23:40Z":{{"currentParallelism":1,"newParallelism":2,'
            '"metrics":{"LAG":{"current":0.5,"average":"-Infinity"}}}}}',
            id="history",
        ),
        pytest.param(
            ConfigChanges({"a": 'é"\n'}, ("b",)),
            "configOverrides",
            '{"overrides":{"a":"\\u00e9\\"\\n"},"removals":["b"]}',
            id="configuration",
        ),
        pytest.param(
            {V1: DelayedVertex(AT_MS, (DelayedRecommendation(AT_MS + 123, 3, is_outside=True),))},
            "delayedScaleDown",
            f'{{"delayedVertices":{{"{V1}":{{"firstTriggerTime":1795184620.000000000,"recommendedParallelisms":'
            '[{"triggerTime":1795184620.123000000,"parallelism":3,"outsideUtilizationBound":true}]}}}',
            id="delayed",
        ),
    ],
)
def test_forms_are_those_of_the_java_process(part: Any, state_type: str, expected: str) -> None:
    assert encode(StateType(state_type), part) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{{{V1}: '4', {V2}: '12'}}", id="one line of YAML"),
        pytest.param(f"{{{V1}: 4, {V2}: 12}}", id="without quotes"),
        pytest.param(f'{{"{V1}":"4","{V2}":"12"}}', id="JSON"),
        pytest.param(f"{V1}:4,{V2}:12", id="old form"),
        pytest.param(f" {V1}:4,{V2}:12\n", id="blanks around"),
    ],
)
def test_overrides_are_read_in_every_form(text: str) -> None:
    assert decode(StateType.PARALLELISM_OVERRIDES, text).part == {V1: 4, V2: 12}


@pytest.mark.parametrize("text", ["", "{}", " "])
def test_overrides_may_be_empty(text: str) -> None:
    assert decode(StateType.PARALLELISM_OVERRIDES, text).part == {}


def test_missing_fields_are_unknown() -> None:
    tracking = '{"scalingRecords": {"2026-11-20T14:23:40Z": {}}}'
    history = f'{{"{V1}": {{"2026-11-20T14:23:40Z": {{"currentParallelism": 1, "newParallelism": 2, "metrics": {{"LAG": {{"average": null}}}}}}}}}}'  # noqa: E501

    assert decode(StateType.SCALING_TRACKING, tracking).part == (ScalingRecord(AT_MS),)
    entry = decode(StateType.SCALING_HISTORY, history).part[V1][0]
    assert same_state(entry.summary.metrics, {ScalingMetric.LAG: EvaluatedMetric(NAN, NAN)})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param('{"2026-11-20T14:23:40Z":{"globalMetrics":{"NEW":1,"LAG":2}}}', "metric NEW", id="metric"),
        pytest.param('{"2026-11-20T14:23:40Z":{"globalMetrics":{"LAG":2},"new":1}}', "property new", id="property"),
    ],
)
def test_what_is_not_known_is_left_out_and_named(text: str, problem: str) -> None:
    decoded = decode(StateType.COLLECTED_METRICS, text)

    assert decoded.part == (MetricSample(AT_MS, {}, {ScalingMetric.LAG: 2.0}),)
    assert decoded.problem == f"left out as unknown: {problem}"


COMPRESSED = base64.b64encode(gzip.compress(b"{}")).decode()
SAMPLE = '{"2026-11-20T14:23:40Z":{"vertexMetrics":{},"globalMetrics":{"LAG":%s}}}'
ENTRY = '{"v":{"2026-11-20T14:23:40Z":{"currentParallelism":%s,"newParallelism":%s,"metrics":null}}}'


@pytest.mark.parametrize(
    ("state_type", "text"),
    [
        pytest.param("collectedMetrics", "garbage", id="garbage"),
        pytest.param("collectedMetrics", "\x00\x01\x02", id="bytes"),
        pytest.param("collectedMetrics", '{"2026-11-20T14:23:40Z":{"vertexM', id="truncated JSON"),
        pytest.param("collectedMetrics", COMPRESSED, id="compressed, as in the store of the Kubernetes operator"),
        pytest.param("collectedMetrics", "a: {LOAD: 0.5}", id="YAML"),
        pytest.param("collectedMetrics", "[" * 100_000, id="deep JSON"),
        pytest.param("collectedMetrics", '{"a":' * 100_000, id="deep objects"),
        pytest.param("collectedMetrics", "[1, 2]", id="a list"),
        pytest.param("collectedMetrics", "1", id="a number"),
        pytest.param("collectedMetrics", '{"yesterday":{}}', id="no instant"),
        pytest.param("collectedMetrics", '{"2026-02-30T00:00:00Z":{}}', id="no such day"),
        pytest.param("collectedMetrics", '{"2026-11-20T14:23:40Z":[]}', id="a sample that is a list"),
        pytest.param("collectedMetrics", SAMPLE % '"much"', id="a number that is a word"),
        pytest.param("collectedMetrics", SAMPLE % "true", id="a number that is a truth value"),
        pytest.param("collectedMetrics", SAMPLE % ("9" * 5000), id="a number that is too long"),
        pytest.param("scalingHistory", ENTRY % (2, 2), id="a decision that changes nothing"),
        pytest.param("scalingHistory", ENTRY % (0, 2), id="parallelism zero"),
        pytest.param("scalingHistory", ENTRY % (1, 1 << 31), id="parallelism beyond an integer"),
        pytest.param("scalingHistory", '{"v":{"2026-11-20T14:23:40Z":{}}}', id="a decision without parallelism"),
        pytest.param("scalingTracking", '{"scalingRecords":{"2026-11-20T14:23:40Z":{"restartDuration":"soon"}}}', id="a duration that is a word"),  # noqa: E501
        pytest.param("scalingTracking", '{"scalingRecords":{"2026-11-20T14:23:40Z":{"restartDuration":1E99}}}', id="an endless duration"),  # noqa: E501
        pytest.param("parallelismOverrides", "a:1,b", id="overrides without a number"),
        pytest.param("parallelismOverrides", "a:one", id="overrides with a word"),
        pytest.param("parallelismOverrides", "a:-1", id="negative overrides"),
        pytest.param("parallelismOverrides", "a:1," * (1 << 19), id="endless overrides"),
        pytest.param("configOverrides", '{"overrides":{"a":1}}', id="a value that is no text"),
        pytest.param("configOverrides", '{"removals":"a"}', id="removals that are no list"),
        pytest.param("delayedScaleDown", '{"delayedVertices":{"v":{}}}', id="a delay without a beginning"),
        pytest.param("delayedScaleDown", '{"delayedVertices":{"v":{"firstTriggerTime":1.5,"recommendedParallelisms":[1]}}}', id="advice that is a number"),  # noqa: E501
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_so(state_type: str, text: str) -> None:
    with pytest.raises(DocumentError) as raised:
        decode(StateType(state_type), text)

    assert 0 < len(str(raised.value)) < 200


@given(
    some.sampled_from(TYPES), some.text(max_size=60) | some.binary(max_size=60).map(lambda data: data.decode("latin1"))
)
def test_any_text_is_read_or_refused(state_type: StateType, text: str) -> None:
    try:
        decode(state_type, text)
    except DocumentError:
        return


@given(some.sampled_from(java_rows("postgres")), some.data())
def test_any_damage_is_read_or_refused(row: dict[str, Any], data: some.DataObject) -> None:
    text = row["state_value"]
    at = data.draw(some.integers(0, len(text)))
    length = data.draw(some.integers(0, 40))
    damaged = text[:at] + data.draw(some.text(max_size=3)) + text[at + length :]

    try:
        decode(StateType(row["state_type"]), damaged)
    except DocumentError:
        return


FLOATS = some.floats(allow_nan=True, allow_infinity=True)
METRICS = some.dictionaries(some.sampled_from(list(ScalingMetric)), FLOATS, max_size=5)
VERTICES = some.integers(0, 2**128 - 1).map(lambda number: f"{number:032x}")
INSTANTS = some.integers(0, 4_102_444_800_000)


@given(some.dictionaries(INSTANTS, some.tuples(some.dictionaries(VERTICES, METRICS, max_size=3), METRICS), max_size=4))
def test_any_samples_come_back_and_satisfy_the_reader(samples: dict[int, tuple[Any, Any]]) -> None:
    window = tuple(MetricSample(at_ms, *samples[at_ms]) for at_ms in sorted(samples))

    text = encode(StateType.COLLECTED_METRICS, window)

    if text is not None:
        check_readable("collectedMetrics", text)
        assert same_state(decode(StateType.COLLECTED_METRICS, text).part, window)


@given(some.dictionaries(INSTANTS, some.tuples(some.dictionaries(VERTICES, METRICS, max_size=3), METRICS), min_size=1))
def test_a_window_is_written_to_the_letter_as_it_is_written_at_once(samples: dict[int, tuple[Any, Any]]) -> None:
    window = tuple(MetricSample(at_ms, *samples[at_ms]) for at_ms in sorted(samples))

    assert WindowTexts().write("main/job", window) == encode(StateType.COLLECTED_METRICS, window)


RECOMMENDATIONS = some.builds(DelayedRecommendation, INSTANTS, some.integers(1, 2**31 - 1), some.booleans())
DELAYED = some.builds(DelayedVertex, INSTANTS, some.lists(RECOMMENDATIONS, max_size=4).map(tuple))


@given(some.dictionaries(VERTICES, DELAYED, min_size=1, max_size=4))
def test_any_scale_downs_that_wait_come_back_and_satisfy_the_reader(waiting: dict[str, DelayedVertex]) -> None:
    text = encode(StateType.DELAYED_SCALE_DOWN, waiting)

    assert text is not None
    check_readable("delayedScaleDown", text)
    assert decode(StateType.DELAYED_SCALE_DOWN, text).part == waiting


@given(some.dictionaries(some.text(), some.text(), max_size=3), some.lists(some.text(), max_size=3))
def test_any_configuration_comes_back_and_satisfies_the_reader(overrides: dict[str, str], removals: list[str]) -> None:
    changes = ConfigChanges(overrides, tuple(removals))

    text = encode(StateType.CONFIG_OVERRIDES, changes)

    if text is not None:
        check_readable("configOverrides", text)
        assert decode(StateType.CONFIG_OVERRIDES, text).part == changes


@given(some.dictionaries(INSTANTS, some.none() | some.integers(0, 10**12), max_size=4))
def test_any_tracking_comes_back_and_satisfies_the_reader(records: dict[int, int | None]) -> None:
    tracking = tuple(ScalingRecord(at_ms, records[at_ms]) for at_ms in sorted(records))

    text = encode(StateType.SCALING_TRACKING, tracking)

    if text is not None:
        check_readable("scalingTracking", text)
        assert decode(StateType.SCALING_TRACKING, text).part == tracking


@given(INSTANTS)
def test_instants_come_back(at_ms: int) -> None:
    assert parse_instant(instant_text(at_ms)) == at_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("2026-11-20T14:23:40Z", AT_MS, id="no fraction"),
        pytest.param("2026-11-20T14:23:40.1Z", AT_MS + 100, id="one digit"),
        pytest.param("2026-11-20T14:23:40.123456789Z", AT_MS + 123, id="nanoseconds are cut off"),
        pytest.param("2026-11-20T14:23Z", AT_MS - 40_000, id="no seconds"),
    ],
)
def test_instants_are_read_with_any_fraction(text: str, expected: int) -> None:
    assert parse_instant(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(90, 90_000, id="whole seconds"),
        pytest.param("90.5", 90_500, id="text"),
        pytest.param("PT90.5S", 90_500, id="ISO duration"),
        pytest.param("PT1H2M3S", 3_723_000, id="hours and minutes"),
        pytest.param("PT-1.5S", -1_500, id="negative"),
        pytest.param("-PT1.5S", -1_500, id="negative as a whole"),
        pytest.param("-1.5", -1_500, id="negative number"),
        pytest.param("2026-11-20T14:23:40Z", AT_MS, id="ISO instant"),
    ],
)
def test_times_are_read_in_every_form(value: object, expected: int) -> None:
    assert parse_seconds(value) == expected


OWN_FIELDS = {"job_id", "supervision", "policies", "forecast"}
"""What the Java process has no row for: it is in a table of our own."""


@pytest.mark.parametrize(
    "field", [field.name for field in dataclasses.fields(full_state()) if field.name not in OWN_FIELDS]
)
def test_every_field_has_a_kind(field: str) -> None:
    assert field in {kind.name for kind in KINDS.values()}
