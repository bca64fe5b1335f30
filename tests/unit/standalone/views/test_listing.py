"""``jobs`` shows of every vertex what it has and what is wanted of it, where that differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flink_autoscaler.core.model.supervision import NO_SUPERVISION
from flink_autoscaler.standalone.records.codec import desired_parallelism_of
from flink_autoscaler.standalone.views.listing import listing_table
from testkit.builders.orders import KEY, OrderedJob
from testkit.contracts.recorded_passes import (
    ENRICH,
    SINK,
    SOURCE,
    RecordedJob,
    delayed_scale_down,
    window_filling,
    without_headroom,
)


@pytest.fixture
def site(ordered: Callable[..., OrderedJob]) -> OrderedJob:
    return ordered(obeys=False)


def vertices(site: OrderedJob) -> dict[str, tuple[int, int | None]]:
    (job,) = json.loads(site.order("jobs", "--json", reason=None).stdout)["jobs"]
    return {each["name"]: (each["parallelism"], each["wanted"]) for each in job["vertices"]}


def test_a_vertex_that_does_not_have_yet_what_it_was_asked_for_is_shown_with_both(site: OrderedJob) -> None:
    site.run()
    before = site.order("jobs", reason=None).stdout
    site.order("pin", KEY, "work=4")
    site.run()

    after = site.order("jobs", reason=None).stdout

    assert "WANTED" not in before
    assert vertices(site)["work"] == (1, 4)
    assert "work 1 → 4" in after.splitlines()[1]
    assert site.wanted == 4


def test_nothing_is_shown_of_a_job_that_has_what_is_wanted(site: OrderedJob) -> None:
    site.order("pin", KEY, "work=4", "--new")
    site.run()
    site.job.vertices[1].parallelism = 4

    assert vertices(site)["work"] == (4, 4)
    assert "WANTED" not in site.order("jobs", reason=None).stdout


@pytest.mark.parametrize(
    ("job", "held_back"),
    [
        pytest.param(without_headroom, "HEADROOM_REACHED", id="no slots"),
        pytest.param(delayed_scale_down, "SCALE_DOWN_DELAYED", id="a wait"),
    ],
)
def test_what_the_load_asks_for_is_wanted_although_something_holds_it_back(
    job: Callable[[], RecordedJob], held_back: str
) -> None:
    record = job().records[-1]
    reasons = record.outcome.decision.reasons
    aligned = {each.vertex_id: dict(each.figures).get("aligned") for each in reasons if each.code == "SIZED"}

    wanted = desired_parallelism_of(NO_SUPERVISION, record.outcome)

    assert held_back in {reason.code for reason in reasons}
    assert aligned
    assert {v: wanted[v] for v in aligned if v is not None} == aligned


def test_a_pin_goes_before_what_the_load_asks_for() -> None:
    record = without_headroom().records[-1]
    pinned = replace(NO_SUPERVISION, asked={SOURCE: 2, ENRICH: 3, SINK: 2}, pinned=frozenset({ENRICH}))

    assert desired_parallelism_of(pinned, record.outcome)[ENRICH] == 3


def test_what_is_asked_for_is_wanted_while_nothing_is_sized() -> None:
    asked = replace(NO_SUPERVISION, asked={ENRICH: 5})

    assert (
        desired_parallelism_of(asked, window_filling().records[-1].outcome)
        == desired_parallelism_of(asked, None)
        == {ENRICH: 5}
    )


def test_vertices_of_which_nothing_else_is_wanted_are_left_out_of_the_table() -> None:
    def a_job(key: str, *vertices: tuple[str, int, int | None]) -> dict[str, Any]:
        shown = [{"name": name, "parallelism": now, "wanted": wanted} for name, now, wanted in vertices]
        facts = {"job_id": "1", "status": "RUNNING", "enabled": True, "parallelism": 2, "labels": {}}
        return {"job_key": key, **facts, "vertices": shown}

    columns, rows = listing_table(
        [a_job("a", ("in", 2, 2), ("work", 1, 4), ("out", 2, 1)), a_job("b", ("in", 2, None))]
    )

    assert [row[columns["WANTED"]] for row in rows] == ["work 1 → 4, out 2 → 1", ""]
