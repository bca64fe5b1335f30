"""Rows with junk in every column of every table: the daemon goes on, no other job is harmed, it is told once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.fakes.flink import FakeFlink
from testkit.scenarios.damage import HEALTHY, SICK, Damage, Site, Unwanted, damages
from testkit.scenarios.damage.site import Seen

SEED = 20_260_101
MOST = os.environ.get("DAMAGED_ROWS", "24")
"""How many of the damages are done: a number, or ``all``."""
SET_ASIDE = ("commands_quarantined", "state_quarantined")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with FakeFlink() as flink:
        yield Site(flink, tmp_path)


def test_a_damaged_row_harms_its_own_job_alone_and_is_told_once(site: Site) -> None:
    chosen = damages(SICK, seed=SEED)[: None if MOST == "all" else int(MOST)]

    found = [problem for damage in chosen for problem in problems(site, damage)]

    assert found == []


@pytest.mark.parametrize(
    ("table", "column", "what"),
    [
        pytest.param("fa_order", "version", "junk", id="orders of no version"),
        pytest.param("fa_order", "version", "largest", id="orders whose versions cannot be added up"),
        pytest.param("fa_order", "orders", "instants out of range", id="orders of years that cannot be shown"),
        pytest.param("fa_job", "own_state", "instants out of range", id="state of years that cannot be shown"),
        pytest.param("fa_forecast_meta", "asof_ms", "junk", id="a profile of no instant"),
    ],
)
def test_rows_like_these_fail_no_cluster(site: Site, table: str, column: str, what: str) -> None:
    found = list(problems(site, Damage(table, column, what, f"job_key = '{SICK}'")))

    assert found == []


def problems(site: Site, damage: Damage) -> Iterator[str]:
    """Damage a database, have a daemon work with it, start it again, and yield what is not as it should be."""
    path = site.copy()
    try:
        damage.do(path)
    except Unwanted:
        return
    for name, seen in {"first start": site.passes(path, 3), "second start": site.passes(path, 1)}.items():
        for problem in judged(seen):
            yield f"{damage}, {name}: {problem}"
        # What was set aside has a sound row in its place; a value that nobody has replaced yet is told by each start.
        if name == "second start" and of_events(seen, "commands_quarantined"):
            yield f"{damage}: told again after it was mended"


def judged(seen: Seen) -> Iterator[str]:
    for number, report in enumerate(seen.reports):
        healthy = report.reports.get(HEALTHY)
        if report.error is not None:
            yield f"pass {number} failed: {report.error}"
        elif healthy is None or healthy.errors:
            yield f"pass {number} did not do its work for another job: {healthy or report.failures}"
    for line in seen.lines:
        if line["level"] in ("error", "critical") or "exception" in line:
            yield f"log: {line}"
    told = Counter((line["event"], line["job_key"], line.get("state_type")) for line in of_events(seen, *SET_ASIDE))
    yield from (f"told {count} times: {what}" for what, count in told.items() if count > 1)
    yield from (f"told about a healthy job: {what}" for what in told if what[1] == HEALTHY)
    if len(told) != seen.set_aside:
        yield f"{len(told)} told, {seen.set_aside} counted"


def of_events(seen: Seen, *events: str) -> list[dict[str, object]]:
    return [dict(line) for line in seen.lines if line["event"] in events]


def test_every_column_of_every_table_is_damaged_with_every_value() -> None:
    found = damages(SICK, seed=SEED)

    assert len(found) == len(set(found)) > 1_500
    assert {damage.table for damage in found[:200]} == {damage.table for damage in found}
