"""Why a job was or was not rescaled, as people and programs are told."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.metrics import FlinkMetric
from flink_autoscaler.core.model.orders import AuditStamp, Orders
from flink_autoscaler.core.model.reading import Origins
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.ports.passes import PassInputs, PassRequest
from flink_autoscaler.pipeline.spark.codec import decode_outcome, encode_outcome
from flink_autoscaler.pipeline.tables.rows import rows_of
from flink_autoscaler.standalone.cli.command import read_instant
from flink_autoscaler.standalone.cli.output import print_sections
from flink_autoscaler.standalone.records.codec import PassRecord, decode, encode
from flink_autoscaler.standalone.views.explanation import Explanation, explain_pass, pass_view, summary_sentence
from flink_autoscaler.standalone.views.explanation_text import explanation_sections
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.records import SqlRecordStore
from testkit.builders.core import MINUTE as CORE_MINUTE
from testkit.builders.core import JobDriver, a_cluster, a_context, pipeline
from testkit.builders.core.pipeline import PIPELINE_SOURCE
from testkit.builders.forked_command import run_command
from testkit.builders.sql.command_line import call
from testkit.contracts.recorded_passes import (
    ENRICH,
    JOB_KEY,
    MINUTE,
    SOURCE,
    START_MS,
    RecordedJob,
    beside_another,
    delayed_scale_down,
    not_reached,
    orders_reading,
    over_quota,
    paused_by_order,
    rolled_back,
    scaled_up,
    stored,
    window_filling,
    without_headroom,
)
from testkit.servers.databases import create_tables

GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "explain.md"


NOON = START_MS / 1000


WIDEST = 80


def last(records: list[PassRecord]) -> Explanation:
    return explain_pass(records[-1], records[-1])


def story_of_enrich(explained: Explanation) -> tuple[int, int, list[str]]:
    story = next(each for each in explained.vertices if each.vertex_id == ENRICH)
    return story.parallelism, story.final, [note.code for note in story.notes]


def test_a_scale_up_tells_what_came_of_it() -> None:
    records = scaled_up().records

    explained = explain_pass(records[2], records[-1])

    assert explained.headline == "rescale: enrich 4 -> 7"
    assert story_of_enrich(explained) == (4, 7, [])
    assert explained.follow_up is not None
    assert (explained.follow_up.stage, explained.follow_up.outage_ms) == ("reached", 3500)
    assert explained.undone_by is None


def delayed_and_lowered(options: dict[str, str]) -> RecordedJob:
    """Wait with a scale-down to 3, want 2 in the end, and go to 3."""
    job = RecordedJob({"scale-down.interval": "3 min", **options})
    job.look_at_load(4, busy_ms=450.0)
    job.look_at_load(3, busy_ms=250.0)
    return job


def test_a_report_expects_the_rate_of_the_parallelism_that_is_decided_on() -> None:
    report = delayed_and_lowered({}).outcome.report

    assert report is not None
    (vertex,) = report.vertices.values()
    assert (vertex.current, vertex.new) == (4, 3)
    assert (vertex.capacity, vertex.expected_capacity) == pytest.approx((4000.0, 3000.0))


def test_a_delayed_scale_down_says_that_the_highest_of_the_wait_counts(capsys: pytest.CaptureFixture[str]) -> None:
    explained = last(delayed_and_lowered({}).records)
    print_sections(explanation_sections(explained))

    said = "3 is the highest recommendation of the last 3 min (scale-down.interval), 2 the current one"
    assert summary_sentence(explained) == f"enrich goes from 4 to 3: {said}."
    assert f"{said} (SCALE_DOWN_HIGHEST)" in capsys.readouterr().out


def test_a_dry_run_by_the_configuration_has_no_instant(capsys: pytest.CaptureFixture[str]) -> None:
    job = RecordedJob(orders=Orders(dry_run=AuditStamp("the configuration", "autoscaler.dry-run is true", 0)))
    job.look_at_load(1)

    print_sections(explanation_sections(last(job.records)))

    shown = capsys.readouterr().out
    assert "dry run, by the configuration: autoscaler.dry-run is true" in shown
    assert "1970" not in shown


def test_a_window_that_fills_says_until_when(capsys: pytest.CaptureFixture[str]) -> None:
    explained = last(window_filling().records)

    print_sections(explanation_sections(explained, now_ms=explained.request.now_ms + 90_000))

    shown = capsys.readouterr().out
    end = datetime.fromtimestamp((explained.request.now_ms + 60_000) / 1000).astimezone()
    assert f"full at {end:%H:%M:%S}, 60 s after this pass (WINDOW_FILLING)" in shown
    assert "90 s ago" in shown.splitlines()[1]


def restarted(ages: Sequence[int], options: Mapping[str, str] | None = None) -> RecordedJob:
    """Look at a job some seconds after its rescale; its tasks claim to be busy until Flink has measured anything."""
    job = RecordedJob(options or {})
    for age in ages:
        job.now_ms = START_MS + 1000 * age - MINUTE
        job.look(orders_reading(START_MS + 1000 * age, busy_ms=1000.0 if age < 5 else 50.0))
    return job


@pytest.mark.parametrize(
    ("ages", "options", "expected"),
    [
        pytest.param((2, 8), {}, "-", id="not measured yet"),
        pytest.param((2, 12), {}, "5%", id="measured"),
        pytest.param((2, 12), {"compat": "reference"}, "52%", id="the reference"),
    ],
)
def test_how_busy_a_vertex_is_right_after_a_rescale_is_told_once_it_is_measured(
    ages: Sequence[int], options: Mapping[str, str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_sections(explanation_sections(last(restarted(ages, options).records)))

    (row,) = (line.split() for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["enrich"])
    assert row[1:3] == ["4", expected]


@pytest.mark.parametrize(
    ("explained", "expected"),
    [
        pytest.param(
            lambda: explain_pass(scaled_up().records[2]),
            "enrich goes from 4 to 7: it needs 152% of what it can process (1,595 of 1,053 records/s).",
            id="by the load",
        ),
        pytest.param(
            lambda: last(without_headroom().records),
            "Nothing changes: enrich would get 7; cluster main: 12 slots, none free (payments 8, orders 4): enrich "
            "stays at 4 instead of 7; 3 slots are missing: 3 more TaskManagers of 1 slot would do, or slots that "
            "other jobs release.",
            id="held back",
        ),
        pytest.param(lambda: last(window_filling().records), "", id="nothing decided it"),
        pytest.param(lambda: last(rolled_back().records), "", id="not by a number"),
    ],
)
def test_one_sentence_says_what_was_decided_and_by_which_number(
    explained: Callable[[], Explanation], expected: str
) -> None:
    assert summary_sentence(explained()) == expected


def test_what_a_policy_in_shadow_mode_would_do_is_shown_beside(capsys: pytest.CaptureFixture[str]) -> None:
    explained = last(beside_another().records)

    print_sections(explanation_sections(explained))

    shown = capsys.readouterr().out
    assert explained.headline == "no change"
    assert "in shadow mode\n  varga would go from 4 slots to 8: " in shown
    assert "enrich 4 -> 8" in shown
    document = pass_view(explained).shadow
    assert (document["policy"], document["held"], document["wanted"]) == ("varga", 4, 8)
    assert document["direction"] == "up"
    assert document["reasons"]


def test_without_a_policy_in_shadow_mode_nothing_is_said_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_sections(explanation_sections(last(scaled_up().records)))

    assert "shadow" not in capsys.readouterr().out


def test_a_rescale_that_was_undone_names_the_rollback() -> None:
    records = rolled_back().records

    explained = explain_pass(records[2], records[-1])

    assert explained.follow_up is not None
    assert explained.follow_up.reverted
    assert explained.undone_by is not None
    assert explained.undone_by.decided_ms == records[4].request.now_ms


def test_a_rollback_is_told_as_one_although_the_job_does_not_run() -> None:
    records = rolled_back().records

    explained = explain_pass(records[4], records[-1])

    assert explained.headline == "rollback: enrich 7 -> 4"
    assert explained.because[0].startswith("network-memory: java.io.IOException: Insufficient number of network")


@pytest.mark.parametrize(
    ("records", "because"),
    [
        pytest.param(window_filling().records, "not full: full at ", id="window"),
        pytest.param(delayed_scale_down().records, "enrich: the scale-down waits for 1 h", id="delayed"),
        pytest.param(over_quota().records, "(QUOTA_REACHED)", id="quota"),
        pytest.param(without_headroom().records, "enrich stays at 4 instead of 7", id="headroom"),
        pytest.param(paused_by_order().records, "paused by mona: month-end closing (PAUSED)", id="paused"),
        pytest.param(rolled_back().records, "(PAUSED_AFTER_ROLLBACK)", id="after a rollback"),
    ],
)
def test_no_change_names_what_prevents_it_first(records: list[PassRecord], because: str) -> None:
    explained = last(records)

    assert explained.headline == "no change"
    assert because in explained.because[0]


def test_a_pass_that_failed_says_why() -> None:
    explained = last(not_reached().records[:4])

    assert explained.headline == "no change: the pass failed (ConnectError)"
    assert explained.because == ("no answer within 10 s (CONNECT)",)
    assert explained.vertices == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("10m ago", START_MS - 600_000, id="age"),
        pytest.param(" 2 h ", START_MS - 7_200_000, id="age without ago"),
        pytest.param("2026-01-31T12:00:00+00:00", START_MS, id="with a zone"),
        pytest.param("2026-01-31T13:00:00+01:00", START_MS, id="with another zone"),
        pytest.param("2026-01-31 12:00:00.250Z", START_MS + 250, id="with a blank and a fraction"),
    ],
)
def test_an_instant_is_an_age_or_a_date(text: str, expected: int) -> None:
    assert read_instant(text, NOON) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "10", "10 parsecs ago", "2026-13-01", "99999999999999999999 d"])
def test_an_instant_that_is_neither_is_a_mistake(text: str) -> None:
    with pytest.raises(ConfigError, match="--at"):
        read_instant(text, NOON)


@pytest.fixture
def file(tmp_path: Path) -> DatabaseSettings:
    return DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")


@pytest.fixture
def store(file: DatabaseSettings) -> Iterator[SqlRecordStore]:
    with closing(Database(file)) as database:
        create_tables(database)
        yield SqlRecordStore(database)


def test_the_command_shows_the_pass_that_was_asked_for(file: DatabaseSettings, store: SqlRecordStore) -> None:
    stored(scaled_up().records, store)

    result = call(file, "explain", "orders", "--at", "2026-01-31T12:03:59")

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[1:3] == ["main/orders  2026-01-31 12:03:00 UTC", "  rescale: enrich 4 -> 7"]
    table = [
        line for line in result.stdout.splitlines() if re.match(r"(VERTEX|Source|Sink|enrich) +\S+ +\d|VERTEX", line)
    ]
    assert all(len(line) <= WIDEST for line in table)


def test_the_command_shows_one_vertex_with_all_its_terms(file: DatabaseSettings, store: SqlRecordStore) -> None:
    stored(scaled_up().records[:3], store)

    result = call(file, "explain", JOB_KEY, "--vertex", "Source: orders")

    assert "Source: orders  2 -> 2\n  needs 1,595 records/s: target rate 1,000 / utilization 0.7" in result.stdout
    assert "enrich  4 -> 7\n" not in result.stdout


def test_json_has_the_terms_and_the_follow_up(file: DatabaseSettings, store: SqlRecordStore) -> None:
    stored(scaled_up().records, store)

    document = json.loads(call(file, "explain", JOB_KEY, "--at", "2026-01-31T12:03", "--json").stdout)

    enrich = document["vertices"][1]
    assert (enrich["name"], enrich["final"], enrich["figures"]["wanted"]) == ("enrich", 7, 7.0)
    assert document["follow_up"]["stage"] == "reached"


def test_an_export_is_replayed_and_one_that_was_changed_is_not_the_same(
    file: DatabaseSettings, store: SqlRecordStore, tmp_path: Path
) -> None:
    stored(scaled_up().records[:3], store)
    export = tmp_path / "pass.json"

    written = call(file, "explain", JOB_KEY, "--export", str(export))
    same = call(file, "replay", "--record", str(export))
    export.write_text(export.read_text().replace('"utilization_target"', '"u"').replace('"0.85"', '"0.99"'))
    other = call(file, "replay", "--record", str(export))

    assert (written.returncode, same.returncode, same.stdout.count("the same again")) == (0, 0, 1)
    assert other.returncode == 1
    assert "not the same\n" in other.stdout


def test_a_stored_pass_is_replayed(file: DatabaseSettings, store: SqlRecordStore) -> None:
    stored(rolled_back().records, store)

    result = call(file, "replay", "--job", "orders", "--at", "2026-01-31T12:05:30")

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "main/orders at 2026-01-31 12:05:00 UTC: the same again (not_running, hold)\n"


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        pytest.param(["explain", "ordesr"], 1, "main/orders", id="unknown job"),
        pytest.param(["explain", JOB_KEY, "--vertex", "x"], 2, "the job has Source: orders, enrich", id="vertex"),
        pytest.param(["explain", JOB_KEY, "--at", "2026-01-30"], 1, "at or before 2026-01-30", id="too early"),
        pytest.param(["replay", "--record", "/nowhere"], 2, "No such file", id="no such file"),
        pytest.param(["replay"], 2, "--job, --record or --vectors", id="nothing to replay"),
        pytest.param(["replay", "--vectors", "x"], 2, "--output belong together", id="no output"),
    ],
)
def test_mistakes_are_told_without_a_traceback(
    file: DatabaseSettings, store: SqlRecordStore, arguments: list[str], code: int, problem: str
) -> None:
    stored(scaled_up().records[:3], store)

    result = call(file, *arguments)

    assert result.returncode == code
    assert problem in result.stderr
    assert all(line.startswith("error: ") for line in result.stderr.splitlines())


def test_without_a_database_it_says_how_to_get_records() -> None:
    result = run_command(["explain", "orders"], os.environ)

    assert result.returncode == 2
    assert "set autoscaler.standalone.state-store.type: JDBC" in result.stderr


EXAMPLES = {
    "A scale-up": (scaled_up, "2026-01-31T12:03"),
    "A decision that was blocked": (without_headroom, "2026-01-31T12:03"),
    "A rollback": (rolled_back, "2026-01-31T12:05"),
}


@pytest.mark.parametrize("title", EXAMPLES)
def test_the_guide_shows_what_the_command_prints(title: str, file: DatabaseSettings, store: SqlRecordStore) -> None:
    scenario, at = EXAMPLES[title]
    stored(scenario().records, store)

    printed = call(file, "explain", "orders", "--at", at).stdout

    _, _, chapter = GUIDE.read_text().partition(f"## {title}\n")
    shown = re.search(r"```text\n(.*?)```", chapter, re.DOTALL)
    assert shown is not None
    assert [line.rstrip() for line in shown[1].strip().splitlines()] == [
        line.rstrip() for line in printed.strip().splitlines()
    ]


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
