"""What people order holds, and what was decided before does not come back: passes of the daemon's own wiring."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision
from testkit.builders.orders import KEY, OrderedJob


@pytest.fixture
def site(ordered: Callable[..., OrderedJob]) -> OrderedJob:
    return ordered(options={"job.autoscaler.rescale.timeout": "1 s"})


def test_a_vertex_stays_as_it_is_after_unpin_whatever_was_decided_before(site: OrderedJob) -> None:
    site.remember(JobState(overrides={site.source: 1, site.work: 7}))
    site.run()
    assert site.running == 7
    site.order("pin", KEY, "work=1")
    site.run(2)
    assert site.running == 1

    site.order("unpin", KEY, reason=None)
    site.run(2)

    assert (site.running, site.wanted) == (1, 1)


def test_what_was_partly_reached_under_a_pin_was_never_decided(site: OrderedJob) -> None:
    site.job.obeys = False
    site.order("pin", KEY, "work=7", "--new")
    site.run(2)
    site.job.rescale({site.work: 3})
    site.run_until("the rescale is over", lambda: site.told("RescalePartiallyReached"))
    site.job.obeys = True
    site.order("pin", KEY, "work=1")
    site.run_until("the pin", lambda: site.running == 1)

    site.order("unpin", KEY, reason=None)
    site.run(2)

    assert (site.running, site.wanted) == (1, 1)


def test_unpin_while_the_pin_is_under_way_follows_it_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OrderedJob(tmp_path, capsys, obeys=False) as site:
        site.order("pin", KEY, "work=4", "--new")
        site.run(2)

        site.order("unpin", KEY, reason=None)
        site.run()
        assert site.wanted == 4
        site.job.rescale({site.work: 4})
        site.run_until("the rescale is reached", lambda: site.told("RescaleReached"))
        site.run(2)

        assert (site.running, site.wanted) == (4, 4)
        assert site.told("RescaleRefused", "RescaleSuperseded") == []


def test_an_unpin_that_the_daemon_slept_through_counts_when_it_wakes(site: OrderedJob) -> None:
    site.remember(JobState(overrides={site.source: 1, site.work: 7}))
    site.order("pin", KEY, "work=2")
    site.run(2)
    site.order("unpin", KEY, reason=None)
    site.flink.pause()
    assert site.passes().run().error is not None
    site.flink.resume()

    site.run(2)

    assert (site.running, site.wanted) == (2, 2)


def rescaled_down(site: OrderedJob) -> JobState:
    """Return what is remembered after work went from 4 to 3."""
    record = RescaleRecord(
        1_000, 1_000, {site.source: 1, site.work: 4}, {site.source: 1, site.work: 3}, stage=Stage.REACHED
    )
    supervision = Supervision(
        current=record, initial={site.source: 1, site.work: 4}, asked={site.source: 1, site.work: 3}
    )
    return JobState(overrides={site.source: 1, site.work: 3}, supervision=supervision)


def test_a_rollback_upwards_is_reached_when_the_job_runs_with_it(site: OrderedJob) -> None:
    site.job.rescale({site.work: 3}, at_ms=500)
    site.job.requirements[site.work] = (1, 3)
    site.job.obeys = False
    site.remember(rescaled_down(site))
    site.order("rollback", KEY)
    site.run(2)

    assert (site.wanted, site.told("RolledBack")) == (4, [])
    site.job.rescale({site.work: 4})
    site.run(2)

    (text,) = site.told("RolledBack")
    assert "The job runs again with Source: source 0 1, work 4" in text
    assert site.remembered().supervision.rescales[-1].stage is Stage.REACHED


def test_a_rollback_upwards_without_slots_says_what_the_job_runs_with(site: OrderedJob) -> None:
    site.job.rescale({site.work: 3}, at_ms=500)
    site.job.requirements[site.work] = (1, 3)
    site.job.obeys = False
    site.remember(rescaled_down(site))

    site.order("rollback", KEY)
    site.run_until("the end of the rollback", lambda: site.told("RolledBack"))

    (text,) = site.told("RolledBack")
    assert "The job runs with Source: source 0 1, work 3 instead of 4" in text
    assert site.remembered().supervision.rescales[-1].stage is Stage.REFUSED
