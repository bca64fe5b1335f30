"""Rows that the history keeps of passes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from flink_autoscaler.core.forecast.arrivals import recent
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.supervision import Origin
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.tables.rows import Row, rows_of
from flink_autoscaler.pipeline.tables.schema import TABLES
from flink_autoscaler.standalone.records.codec import PassRecord
from testkit.builders.core import MINUTE as CORE_MINUTE
from testkit.builders.core import JobDriver, a_context, pipeline, single_source
from testkit.builders.core.pipeline import PIPELINE_MAP, PIPELINE_SOURCE
from testkit.contracts.recorded_passes import ENRICH, START_MS, beside_another, rolled_back, scaled_up

SPAN_MS = 60_000


def rows(
    outcome: PassOutcome, now_ms: int, *, context: JobAutoScalerContext | None = None, span_ms: int = SPAN_MS
) -> dict[str, list[Row]]:
    by_table: dict[str, list[Row]] = defaultdict(list)
    for name, row in rows_of(outcome, context or a_context(), now_ms, span_ms=span_ms):
        by_table[name].append(row)
    return by_table


def rows_of_record(record: PassRecord) -> dict[str, list[Row]]:
    return rows(record.outcome, record.request.now_ms, context=record.request.context)


def after(driver: JobDriver, *, pending: tuple[float, ...], rate: float = 100.0) -> dict[str, list[Row]]:
    """Do passes a minute apart with so much lag each, and return the rows of the last one."""
    for minute, lag in enumerate(pending, start=1):
        outcome = driver.run(
            minute * CORE_MINUTE, pipeline(minute, pending=lag, rate=rate, busy_ms=(500.0, 800.0), partitions=4)
        )
    return rows(outcome, len(pending) * CORE_MINUTE)


@pytest.mark.parametrize(
    ("pending", "arrival", "slope"),
    [
        pytest.param((0.0, 0.0), 100.0, 0.0, id="all that arrives is read"),
        pytest.param((0.0, 6000.0), 200.0, 100.0, id="the lag grows: more arrives than is read"),
        pytest.param((6000.0, 3000.0), 50.0, -50.0, id="the lag shrinks: less arrives than is read"),
        pytest.param((12000.0, 0.0), 0.0, -200.0, id="never below nothing"),
    ],
)
def test_arrival_is_consumption_plus_growth_of_lag(pending: tuple[float, ...], arrival: float, slope: float) -> None:
    [sample] = after(JobDriver(a_context()), pending=pending)["samples"]

    assert sample["arrival_rate"] == arrival
    assert (sample["consumption_rate"], sample["lag_slope"], sample["lag"]) == (100.0, slope, pending[-1])
    assert (sample["source_id"], sample["parallelism"], sample["partitions"]) == (PIPELINE_SOURCE, 4, 4)


def test_first_sample_has_no_rate() -> None:
    [sample] = after(JobDriver(a_context()), pending=(50.0,))["samples"]

    assert (sample["arrival_rate"], sample["consumption_rate"], sample["lag"]) == (None, None, 50.0)


def test_arrival_is_unknown_while_the_source_does_not_answer() -> None:
    driver = JobDriver(a_context())
    driver.run(CORE_MINUTE, single_source(1, rate=100.0, busy_ms=500.0))

    outcome = driver.run(2 * CORE_MINUTE, single_source(2, rate=100.0, busy_ms=500.0, is_complete=False))

    [sample] = rows(outcome, 2 * CORE_MINUTE)["samples"]
    assert (sample["arrival_rate"], sample["lag"]) == (None, None)


def test_rates_cover_the_span_and_no_more() -> None:
    driver = JobDriver(a_context())
    after(driver, pending=(0.0, 0.0, 60_000.0))

    window = recent(driver.state.samples, SPAN_MS)

    assert [sample.at_ms for sample in window] == [2 * CORE_MINUTE, 3 * CORE_MINUTE]


def test_rates_cover_more_than_the_span_where_passes_are_further_apart() -> None:
    driver = JobDriver(a_context())
    after(driver, pending=(0.0, 0.0, 0.0))

    assert len(recent(driver.state.samples, 10_000)) == 2


def test_vertices_have_what_backtests_are_fitted_to() -> None:
    source, following = after(JobDriver(a_context()), pending=(0.0, 0.0, 0.0))["vertices"]

    assert (source["is_source"], source["inputs"]) == (True, [])
    assert (following["vertex_id"], following["busy"], following["records_in_rate"]) == (PIPELINE_MAP, 0.8, 100.0)
    assert following["true_rate"] == pytest.approx(125.0)
    assert following["inputs"] == [{"vertex_id": PIPELINE_SOURCE, "ship_strategy": "REBALANCE", "selectivity": 1.0}]


def test_selectivity_is_unknown_while_nothing_flows() -> None:
    _, following = after(JobDriver(a_context()), pending=(0.0, 0.0), rate=0.0)["vertices"]

    assert following["inputs"][0]["selectivity"] is None


def test_a_decision_has_its_reasons_and_changes() -> None:
    record = scaled_up().records[2]

    [decision] = rows_of_record(record)["decisions"]

    assert (decision["decision"], decision["phase"], decision["status"]) == ("rescale", "executed", "RUNNING")
    assert decision["changes"] == [{"vertex_id": ENRICH, "before": 4, "after": 7}]
    assert [reason["code"] for reason in decision["reasons"]] == [r.code for r in record.outcome.decision.reasons]


def test_a_decision_has_what_a_policy_in_shadow_mode_would_do() -> None:
    names = ("shadow_policy", "slots_held", "shadow_slots", "shadow_direction")
    [beside], [alone] = (rows_of_record(job.records[-1])["decisions"] for job in (beside_another(), scaled_up()))

    assert [beside[name] for name in names] == ["varga", 4, 8, "up"]
    assert [alone[name] for name in names] == [None] * 4


def test_texts_are_masked() -> None:
    record = scaled_up().records[2]

    named = rows_of(record.outcome, record.request.context, START_MS, span_ms=SPAN_MS, mask=lambda _: "***")

    [decision] = [row for name, row in named if name == "decisions"]
    assert {reason["text"] for reason in decision["reasons"]} == {"***"}


def test_a_rescale_is_written_in_the_pass_that_settles_it_and_in_no_other() -> None:
    records = scaled_up().records

    written = [rows_of_record(record)["rescales"] for record in records]

    assert [len(each) for each in written] == [0, 0, 0, 1]
    [rescale] = written[-1]
    assert (rescale["stage"], rescale["origin"], rescale["outage"]) == ("reached", "autoscaler", 3.5)
    assert {"vertex_id": ENRICH, "parallelism": 7} in rescale["target"]


def test_a_rescale_that_settles_in_a_pass_that_had_to_wait_is_written_in_it_and_in_no_other() -> None:
    *_, record = scaled_up().records
    context, at_ms = record.request.context, record.request.now_ms
    counts = [
        sum(name == "rescales" for name, _ in rows_of(record.outcome, context, at_ms + late_ms, span_ms=60_000))
        for late_ms in (-11_000, -150, 0, 5_000)
    ]

    assert counts == [1, 1, 1, 0]


def test_a_rescale_that_is_rolled_back_is_written_as_reverted_and_so_is_the_rollback() -> None:
    written = [row for record in rolled_back().records for row in rows_of_record(record)["rescales"]]

    last = {row["decided_at"]: row for row in written}
    assert [(row["origin"], row["reverted"]) for row in last.values()] == [("autoscaler", True), ("rollback", False)]


def test_a_rescale_that_a_person_has_undone_is_written_as_reverted() -> None:
    counts = []
    for record in rolled_back().records:
        supervision = record.outcome.state.supervision
        current = supervision.current and replace(supervision.current, origin=Origin.OPERATOR)
        state = replace(record.outcome.state, supervision=replace(supervision, current=current))
        ordered = replace(record, outcome=replace(record.outcome, state=state))
        counts.append(sum(row["reverted"] for row in rows_of_record(ordered)["rescales"]))

    assert sum(counts) == 1


def test_a_job_that_is_not_looked_after_leaves_no_trace() -> None:
    outcome = JobDriver(a_context({"enabled": "false"})).run(CORE_MINUTE, single_source(1, rate=1.0, busy_ms=1.0))

    assert rows(outcome, CORE_MINUTE) == {}


def test_a_job_that_does_not_run_has_a_decision_alone() -> None:
    context = replace(a_context(), status=JobStatus.RESTARTING)
    outcome = JobDriver(context).run(CORE_MINUTE, single_source(1, rate=1.0, busy_ms=1.0))

    found = rows(outcome, CORE_MINUTE, context=context)

    assert set(found) == {"decisions"}
    assert found["decisions"][0]["status"] == "RESTARTING"


def test_rows_have_exactly_the_columns_that_are_declared() -> None:
    for record in rolled_back().records:
        for name, listed in rows_of_record(record).items():
            assert all(set(row) == set(TABLES[name].schema.names) for row in listed)
