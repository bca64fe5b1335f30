"""What people see of a job does not depend on how often somebody looked."""

from __future__ import annotations

from dataclasses import replace

from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.views.fleet import Fleet, JobNow
from testkit.builders.web import WebSite

JOB = "main/orders"
STEP_MS = 17_000


def failed(report: PassReport, *, is_listed: bool) -> PassReport:
    """Return the report of a pass that could not look at the job, or not even read its entry of the list."""
    jobs = report.jobs if is_listed else ()
    return replace(report, jobs=jobs, reports={}, requests={}, failures={JOB: ConnectError("away")})


def job_of(fleet: Fleet) -> JobNow:
    job = fleet.job(JOB)
    assert job is not None
    return job


def test_points_figures_and_shares_are_those_of_who_looks_at_every_pass() -> None:
    with WebSite(step_ms=STEP_MS) as site:
        site.add("orders")
        seen, unseen = Fleet(lambda: site.now_ms), Fleet(lambda: site.now_ms)
        for number in range(24):
            report = site.run()
            if number % 7 == 6:
                report = failed(report, is_listed=number % 2 == 0)
            for fleet in (seen, unseen):
                fleet.record_pass(report)
            watched = job_of(seen)
        found = job_of(unseen)

    assert len(found.points) >= 24 * STEP_MS // 60_000 - 2
    assert found.points == watched.points
    assert found.points[-1].load is not None
    assert (found.figures, found.report, found.failure) == (watched.figures, watched.report, watched.failure)
    assert found.shares.keys() == watched.shares.keys()
    assert unseen.job_count() == len(unseen.jobs()) == 1
