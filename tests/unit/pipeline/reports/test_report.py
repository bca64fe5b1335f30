"""What is said about each job, from sums."""

from __future__ import annotations

import pytest

from flink_autoscaler.pipeline.reports.pages import top_talkers, totals_of
from flink_autoscaler.pipeline.reports.report import (
    MAX_BUCKETS,
    AttentionReason,
    ReportMetrics,
    ReportPeriod,
    Row,
    report_metrics,
)

UNTIL = 1_769_860_800.0
"""2026-01-31 12:00 UTC."""

WELL: Row = {"phase": "executed", "status": "RUNNING", "supervision": "stable", "error": None, "reasons": []}


def decisions(**other: object) -> Row:
    return {
        "cluster": "main",
        "passes": 100,
        "first": UNTIL - 6000,
        "last": UNTIL - 60,
        "limited": 0,
        "blind": 0,
        "latest": WELL,
        **other,
    }


def figures(totals: Row | None = None, of_decisions: Row | None = None, rescales: Row | None = None) -> ReportMetrics:
    return report_metrics("main/orders", totals or {}, of_decisions or decisions(), rescales or {}, until=UNTIL)


def test_slot_hours_are_compared_with_the_most_slots_all_the_time() -> None:
    # An hour with 2 slots, and one with 4.
    job = figures({"slot_seconds": 6 * 3600.0, "slot_known": 7200.0, "peak": 4})

    assert (job.slot_hours, job.static_hours, job.saved_share) == (6.0, 8.0, 0.25)


def test_what_is_not_known_is_none() -> None:
    job = figures()

    assert (job.slot_hours, job.static_hours, job.saved_share, job.late_minutes, job.load) == (None,) * 5


@pytest.mark.parametrize(
    ("totals", "minutes"),
    [
        pytest.param({"late": 120.0, "lag_known": 600.0}, 2.0, id="some of the time"),
        pytest.param({"late": None, "lag_known": 600.0}, 0.0, id="never"),
        pytest.param({"late": None, "lag_known": None}, None, id="lag not known: not never"),
    ],
)
def test_minutes_too_late(totals: Row, minutes: float | None) -> None:
    assert figures(totals).late_minutes == minutes


@pytest.mark.parametrize(
    ("of_decisions", "rescales", "expected"),
    [
        pytest.param(decisions(), {}, (), id="all is well"),
        pytest.param(
            decisions(
                latest={
                    **WELL,
                    "supervision": "paused",
                    "reasons": [{"code": "PAUSED_AFTER_ROLLBACK", "text": "since a crash loop", "vertex_id": None}],
                }
            ),
            {},
            (AttentionReason("paused", "since a crash loop"),),
            id="paused",
        ),
        pytest.param(
            decisions(),
            {"rescales": 3, "reverted": 2, "revert": {"at": UNTIL, "reason": "crash loop"}},
            (AttentionReason("rolled back", "2 rescales, the last one on 2026-01-31 12:00 UTC: crash loop"),),
            id="rolled back",
        ),
        pytest.param(
            decisions(),
            {"rescales": 3, "failed": 1, "failure": {"at": UNTIL, "reason": None}},
            (AttentionReason("failed", "1 rescale, the last one on 2026-01-31 12:00 UTC"),),
            id="failed, nobody knows why",
        ),
        pytest.param(
            decisions(limited=50, limit="no more slots"),
            {},
            (AttentionReason("limited", "in 50% of the passes: no more slots"),),
            id="limited",
        ),
        pytest.param(decisions(limited=4, limit="no more slots"), {}, (), id="hardly ever limited"),
        pytest.param(
            decisions(blind=30, latest={**WELL, "phase": "not_ready", "error": "no lag"}),
            {},
            (AttentionReason("no metrics", "in 30% of the passes; now: no lag"),),
            id="no metrics",
        ),
        pytest.param(
            decisions(latest={**WELL, "status": "FAILED", "phase": "not_running"}),
            {},
            (AttentionReason("not running", "its status is FAILED"),),
            id="failed job",
        ),
        pytest.param(
            decisions(last=UNTIL - 7200),
            {},
            (AttentionReason("not seen", "the history has nothing about it since 2026-01-31 10:00 UTC"),),
            id="not seen for two hours",
        ),
        pytest.param(decisions(last=UNTIL - 7200, latest={**WELL, "status": "FINISHED"}), {}, (), id="came to its end"),
    ],
)
def test_jobs_need_a_person_for_a_reason(
    of_decisions: Row, rescales: Row, expected: tuple[AttentionReason, ...]
) -> None:
    assert figures(of_decisions=of_decisions, rescales=rescales).concerns == expected


def test_totals_do_not_take_what_is_not_known_for_nothing() -> None:
    known = ReportMetrics("main/a", "main", 10, slot_hours=1.0, static_hours=2.0, late_minutes=3.0)

    totals = totals_of([known, ReportMetrics("main/b", "main", 10)])

    assert [totals[name] for name in ("slot_hours", "saved_share", "late_minutes", "unknown")] == [1.0, 0.5, 3.0, 1]


def test_top_talkers_are_the_ten_with_the_most() -> None:
    jobs = [ReportMetrics(f"main/{number:02d}", "main", 10, rescales=number) for number in range(20)]

    found = top_talkers(jobs)

    assert [rescales for _, rescales in found["rescales"]] == list(range(19, 9, -1))
    assert found["slot_hours"] == []


@pytest.mark.parametrize(
    ("seconds", "width"),
    [
        pytest.param(3600, 60, id="an hour: minutes"),
        pytest.param(7 * 86_400, 1800, id="a week: half hours"),
        pytest.param(90 * 86_400, 21_600, id="a quarter: quarters of a day"),
        pytest.param(5000 * 86_400, 11 * 86_400, id="years: whole days"),
    ],
)
def test_periods_have_round_buckets(seconds: int, width: int) -> None:
    period = ReportPeriod.of(UNTIL - seconds, UNTIL)

    assert period.width == width
    assert period.count <= MAX_BUCKETS
    assert period.since % width == 0


def test_empty_periods_are_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        ReportPeriod.of(UNTIL, UNTIL)
