"""Orders in the wrong order, twice, against each other, for jobs that vanish: what the table of the guide says."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from flink_autoscaler.core.model.orders import Orders, Signed
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision, SupervisionPhase
from flink_autoscaler.core.ports.order_book import Ordered
from flink_autoscaler.core.supervise import order_book
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.orders import SqlOrderBook
from testkit.builders.orders import KEY, OrderedJob, unchanged_logging

__all__ = ["unchanged_logging"]

GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "operating.md"
Row = Callable[[OrderedJob], None]


def rescaled(site: OrderedJob) -> None:
    """Let work have gone from 4 to 2."""
    site.job.rescale({site.work: 2}, at_ms=500)
    site.job.requirements[site.work] = (1, 2)
    before, target = {site.source: 1, site.work: 4}, {site.source: 1, site.work: 2}
    hour_ago = time.time_ns() // 1_000_000 - 3_600_000
    record = RescaleRecord(hour_ago, hour_ago, before, target, stage=Stage.REACHED)
    site.remember(JobState(overrides=target, supervision=Supervision(current=record, initial=before, asked=target)))


def known(site: OrderedJob) -> None:
    site.remember(JobState(overrides={site.source: 1, site.work: 1}))


def said(site: OrderedJob, *arguments: str, reason: str | None = "a test") -> str:
    answer = site.order(*arguments, reason=reason)
    assert answer.code == 0
    return answer.output


def refused(site: OrderedJob, *arguments: str) -> str:
    answer = site.order(*arguments)
    assert answer.code == 1
    return answer.errors


def resume_first(site: OrderedJob) -> None:
    known(site)
    assert "It is not paused; there is nothing to resume" in said(site, "resume", KEY, reason=None)


def unpin_first(site: OrderedJob) -> None:
    known(site)
    assert "Nothing is pinned; there is nothing to unpin" in said(site, "unpin", KEY, reason=None)


def dry_run_off_first(site: OrderedJob) -> None:
    known(site)
    assert "No dry run was ordered; there is nothing to end" in said(site, "dry-run", KEY, "off")


def pause_twice(site: OrderedJob) -> None:
    known(site)
    said(site, "pause", KEY, "--up")
    assert "(instead of: scaling up paused" in said(site, "pause", KEY, "--down")
    listed = said(site, "orders", reason=None)
    assert ("pause (down)" in listed, "pause (up)" in listed) == (True, False)


def pin_twice(site: OrderedJob) -> None:
    known(site)
    said(site, "pin", KEY, "work=3")
    said(site, "pin", KEY, "work=2")
    site.run(2)
    assert site.running == 2
    assert "work=3" not in said(site, "orders", reason=None)


def dry_run_twice(site: OrderedJob) -> None:
    known(site)
    said(site, "dry-run", KEY, "on")
    assert "A dry run is on already, by ann: a test" in said(site, "dry-run", KEY, "on")


def rollback_twice(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "rollback", KEY)
    said(site, "rollback", KEY)
    site.run(4)
    assert (site.running, len(site.told("RollbackStarted")), site.told("RollbackImpossible")) == (4, 1, [])


def rollback_of_a_rollback(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "rollback", KEY)
    site.run(3)
    assert "was a rollback already" in refused(site, "rollback", KEY)


def rollback_then_reset(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "rollback", KEY)
    said(site, "reset", KEY, "--yes")
    site.run(2)
    assert (site.wanted, site.told("RollbackStarted"), len(site.told("StateReset"))) == (2, [], 1)


def reset_then_rollback(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "reset", KEY, "--yes")
    assert "No rollback: a reset is ordered, by ann: a test" in refused(site, "rollback", KEY)
    site.run(2)
    assert (site.wanted, site.told("RollbackImpossible"), len(site.told("StateReset"))) == (2, [], 1)


def rollback_then_dry_run(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "rollback", KEY)
    assert "(void: the rollback that waits, by ann: a test)" in said(site, "dry-run", KEY, "on")
    site.run(2)
    said(site, "dry-run", KEY, "off")
    site.run(2)
    assert (site.wanted, site.told("RollbackStarted")) == (2, [])


def dry_run_then_rollback(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "dry-run", KEY, "on")
    assert "No rollback: a dry run is on" in refused(site, "rollback", KEY)


def pause_then_pin(site: OrderedJob) -> None:
    known(site)
    said(site, "pause", KEY)
    said(site, "pin", KEY, "work=3")
    site.run(2)
    assert site.running == 3


def pin_during_a_rescale(site: OrderedJob) -> None:
    site.job.obeys = False
    known(site)
    said(site, "pin", KEY, "work=3")
    site.run(2)
    said(site, "pin", KEY, "work=2")
    site.run(2)
    stages = [record.stage for record in site.remembered().supervision.rescales]
    assert (site.wanted, stages[0]) == (2, Stage.SUPERSEDED)


def pause_during_a_rescale(site: OrderedJob) -> None:
    site.job.obeys = False
    known(site)
    said(site, "pin", KEY, "work=3")
    site.run(2)
    said(site, "pause", KEY)
    site.job.rescale({site.work: 3})
    site.run(2)
    assert len(site.told("RescaleReached")) == 1


def rollback_during_a_rescale(site: OrderedJob) -> None:
    site.job.obeys = False
    known(site)
    said(site, "pin", KEY, "work=3")
    site.run(2)
    said(site, "rollback", KEY)
    site.run()
    assert (site.wanted, site.remembered().supervision.rescales[0].stage) == (1, Stage.SUPERSEDED)


def pin_during_a_rollback(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "rollback", KEY)
    said(site, "pin", KEY, "work=3")
    site.run(4)
    assert site.running == 4
    said(site, "resume", KEY, reason=None)
    site.run(2)
    assert site.running == 3


def resume_during_a_rollback(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "rollback", KEY)
    assert "nothing to resume" in said(site, "resume", KEY, reason=None)
    site.run(3)
    assert (site.running, site.remembered().supervision.phase) == (4, SupervisionPhase.PAUSED)


def job_that_vanished(site: OrderedJob) -> None:
    known(site)
    site.run()
    job = site.flink.jobs.pop(site.job.job_id)
    site.run()
    said(site, "pin", KEY, "work=3")
    site.run()
    assert "pin work=3" in said(site, "orders", reason=None)
    site.flink.jobs[job.job_id] = job
    site.run(2)
    assert site.running == 3


def job_not_known(site: OrderedJob) -> None:
    known(site)
    answer = site.order("pause", "main/ordres")
    assert (answer.code == 0, "no job 'main/ordres' is known" in answer.errors) == (False, True)
    assert answer.errors.endswith("main/orders\n")


def two_people(site: OrderedJob) -> None:
    def order(vertex: str) -> Ordered:
        def command(orders: Orders, now_ms: int) -> Ordered:
            return order_book.pin(orders, Signed(vertex, "", now_ms), {vertex: 2})

        with closing(Database(site.database)) as database:
            return SqlOrderBook(database).change(KEY, command)

    vertices = [f"vertex-{number}" for number in range(8)]
    with ThreadPoolExecutor(4) as people:
        list(people.map(order, vertices))
    listed = said(site, "orders", reason=None)
    assert [vertex for vertex in vertices if f"pin {vertex}=2" in listed] == vertices


ROWS: dict[str, Row] = {
    "`resume` before any `pause`": resume_first,
    "`unpin` before any `pin`": unpin_first,
    "`dry-run off` before `on`": dry_run_off_first,
    "`pause` twice": pause_twice,
    "`pin` of one vertex twice": pin_twice,
    "`dry-run on` twice": dry_run_twice,
    "`rollback` twice before a pass": rollback_twice,
    "`rollback` after a rollback": rollback_of_a_rollback,
    "`rollback`, then `reset`": rollback_then_reset,
    "`reset`, then `rollback`": reset_then_rollback,
    "`rollback`, then `dry-run on`": rollback_then_dry_run,
    "`dry-run on`, then `rollback`": dry_run_then_rollback,
    "`pause`, then `pin`": pause_then_pin,
    "`pin` while a rescale runs": pin_during_a_rescale,
    "`pause` while a rescale runs": pause_during_a_rescale,
    "`rollback` while a rescale runs": rollback_during_a_rescale,
    "`pin` while a rollback waits": pin_during_a_rollback,
    "`resume` while a rollback waits": resume_during_a_rollback,
    "an order for a job that vanished": job_that_vanished,
    "an order for a job that is not known": job_not_known,
    "two people at once": two_people,
}


@pytest.mark.parametrize("row", ROWS)
def test_orders_that_meet_come_to_what_the_guide_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str
) -> None:
    with OrderedJob(tmp_path, capsys) as site:
        ROWS[row](site)


def test_every_row_of_the_guide_has_a_test() -> None:
    chapter = GUIDE.read_text(encoding="utf-8").split("## Orders that meet\n")[1].split("\n## ")[0]

    assert re.findall(r"^\| (?!given|-)([^|]+) \|", chapter, flags=re.MULTILINE) == list(ROWS)
