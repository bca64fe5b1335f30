"""Orders in the wrong order, twice, against each other, for jobs that vanish: what the table of the guide says."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from flink_autoscaler.core.model.orders import AuditStamp, Orders
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision, SupervisionPhase
from flink_autoscaler.core.ports.order_store import CommandResult
from flink_autoscaler.core.rescale import operator_commands
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.orders import SqlOrderStore
from testkit.builders.orders import KEY, OrderedJob

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "operating.md"
Row = Callable[[OrderedJob], None]
ROWS: dict[str, Row] = {}


def row(text: str) -> Callable[[Row], Row]:
    """Mark what a row of the guide says."""

    def take(function: Row) -> Row:
        ROWS[text] = function
        return function

    return take


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
    assert answer.returncode == 0
    return answer.stdout


def refused(site: OrderedJob, *arguments: str) -> str:
    answer = site.order(*arguments)
    assert answer.returncode == 1
    return answer.stderr


@row("`resume` before any `pause`")
def _(site: OrderedJob) -> None:
    known(site)
    assert "It is not paused; there is nothing to resume" in said(site, "resume", KEY, reason=None)


@row("`unpin` before any `pin`")
def _(site: OrderedJob) -> None:
    known(site)
    assert "Nothing is pinned; there is nothing to unpin" in said(site, "unpin", KEY, reason=None)


@row("`dry-run off` before `on`")
def _(site: OrderedJob) -> None:
    known(site)
    assert "No dry run was ordered; there is nothing to end" in said(site, "dry-run", KEY, "off")


@row("`pause` twice")
def _(site: OrderedJob) -> None:
    known(site)
    said(site, "pause", KEY, "--up")
    assert "(instead of: scaling up paused" in said(site, "pause", KEY, "--down")
    listed = said(site, "commands", reason=None)
    assert ("pause (down)" in listed, "pause (up)" in listed) == (True, False)


@row("`pin` of one vertex twice")
def _(site: OrderedJob) -> None:
    known(site)
    said(site, "pin", KEY, "work=3")
    said(site, "pin", KEY, "work=2")
    site.run(2)
    assert site.running == 2
    assert "work=3" not in said(site, "commands", reason=None)


@row("`dry-run on` twice")
def _(site: OrderedJob) -> None:
    known(site)
    said(site, "dry-run", KEY, "on")
    assert "A dry run is on already, by ann: a test" in said(site, "dry-run", KEY, "on")


@row("`rollback` twice before a pass")
def _(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "rollback", KEY)
    said(site, "rollback", KEY)
    site.run(4)
    assert (site.running, len(site.told("RollbackStarted")), site.told("RollbackImpossible")) == (4, 1, [])


@row("`rollback` after a rollback")
def _(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "rollback", KEY)
    site.run(3)
    assert "was a rollback already" in refused(site, "rollback", KEY)


@row("`rollback`, then `reset`")
def _(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "rollback", KEY)
    said(site, "reset", KEY, "--yes")
    site.run(2)
    assert (site.wanted, site.told("RollbackStarted"), len(site.told("StateReset"))) == (2, [], 1)


@row("`reset`, then `rollback`")
def _(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "reset", KEY, "--yes")
    assert "No rollback: a reset is ordered, by ann: a test" in refused(site, "rollback", KEY)
    site.run(2)
    assert (site.wanted, site.told("RollbackImpossible"), len(site.told("StateReset"))) == (2, [], 1)


@row("`rollback`, then `dry-run on`")
def _(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "rollback", KEY)
    assert "(void: the rollback that waits, by ann: a test)" in said(site, "dry-run", KEY, "on")
    site.run(2)
    said(site, "dry-run", KEY, "off")
    site.run(2)
    assert (site.wanted, site.told("RollbackStarted")) == (2, [])


@row("`dry-run on`, then `rollback`")
def _(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "dry-run", KEY, "on")
    assert "No rollback: a dry run is on" in refused(site, "rollback", KEY)


@row("`pause`, then `pin`")
def _(site: OrderedJob) -> None:
    known(site)
    said(site, "pause", KEY)
    said(site, "pin", KEY, "work=3")
    site.run(2)
    assert site.running == 3


@row("`pin` while a rescale runs")
def _(site: OrderedJob) -> None:
    site.job.obeys = False
    known(site)
    said(site, "pin", KEY, "work=3")
    site.run(2)
    said(site, "pin", KEY, "work=2")
    site.run(2)
    stages = [record.stage for record in site.remembered().supervision.rescales]
    assert (site.wanted, stages[0]) == (2, Stage.SUPERSEDED)


@row("`pause` while a rescale runs")
def _(site: OrderedJob) -> None:
    site.job.obeys = False
    known(site)
    said(site, "pin", KEY, "work=3")
    site.run(2)
    said(site, "pause", KEY)
    site.job.rescale({site.work: 3})
    site.run(2)
    assert len(site.told("RescaleReached")) == 1


@row("`rollback` while a rescale runs")
def _(site: OrderedJob) -> None:
    site.job.obeys = False
    known(site)
    said(site, "pin", KEY, "work=3")
    site.run(2)
    said(site, "rollback", KEY)
    site.run()
    assert (site.wanted, site.remembered().supervision.rescales[0].stage) == (1, Stage.SUPERSEDED)


@row("`pin` while a rollback waits")
def _(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "rollback", KEY)
    said(site, "pin", KEY, "work=3")
    site.run(4)
    assert site.running == 4
    said(site, "resume", KEY, reason=None)
    site.run(2)
    assert site.running == 3


@row("`resume` while a rollback waits")
def _(site: OrderedJob) -> None:
    rescaled(site)
    said(site, "rollback", KEY)
    assert "nothing to resume" in said(site, "resume", KEY, reason=None)
    site.run(3)
    assert (site.running, site.remembered().supervision.phase) == (4, SupervisionPhase.PAUSED)


@row("an order for a job that vanished")
def _(site: OrderedJob) -> None:
    known(site)
    site.run()
    job = site.flink.jobs.pop(site.job.job_id)
    site.run()
    said(site, "pin", KEY, "work=3")
    site.run()
    assert "pin work=3" in said(site, "commands", reason=None)
    site.flink.jobs[job.job_id] = job
    site.run(2)
    assert site.running == 3


@row("an order for a job that is not known")
def _(site: OrderedJob) -> None:
    known(site)
    answer = site.order("pause", "main/ordres")
    assert (answer.returncode == 0, "no job 'main/ordres' is known" in answer.stderr) == (False, True)
    assert answer.stderr.endswith("main/orders\n")


@row("two people at once")
def _(site: OrderedJob) -> None:
    def order(vertex: str) -> CommandResult:
        def command(orders: Orders, now_ms: int) -> CommandResult:
            return operator_commands.pin_order(orders, AuditStamp(vertex, "", now_ms), {vertex: 2})

        with closing(Database(site.database)) as database:
            return SqlOrderStore(database).change(KEY, command)

    vertices = [f"vertex-{number}" for number in range(8)]
    with ThreadPoolExecutor(4) as people:
        list(people.map(order, vertices))
    listed = said(site, "commands", reason=None)
    assert [vertex for vertex in vertices if f"pin {vertex}=2" in listed] == vertices


@pytest.mark.parametrize("row", ROWS)
def test_orders_that_meet_come_to_what_the_guide_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str
) -> None:
    with OrderedJob(tmp_path, capsys) as site:
        ROWS[row](site)


def test_every_row_of_the_guide_has_a_test() -> None:
    chapter = GUIDE.read_text(encoding="utf-8").split("## Orders that meet\n")[1].split("\n## ")[0]

    assert re.findall(r"^\| (?!given|-)([^|]+) \|", chapter, flags=re.MULTILINE) == list(ROWS)
