"""Real Flink on a real YARN: found, followed and rescaled by the daemon and its commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from testkit.clusters.flink import job
from testkit.clusters.yarn import FlinkOnYarn, YarnApplication, YarnCluster
from testkit.clusters.yarn.autoscaling import Autoscaling
from testkit.clusters.yarn.configuration import TIMEOUT

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="yarn")]

# One subtask of "work" takes 1 ms per record: 1,300 records/s need two of them at full use, and a third one to spare.
ORDERS = job.ScalingJob(name="orders", curve="0:1300", cost_micros=1000)
REPORTS = job.ScalingJob(name="reports", curve="0:1300", cost_micros=1000)


class Deployed(NamedTuple):
    """What runs on the YARN of this module."""

    orders: YarnApplication
    reports: YarnApplication


@pytest.fixture(scope="module")
def orders(flink_on_yarn: FlinkOnYarn) -> Iterator[YarnApplication]:
    """Give an application cluster with the job "orders" of alice."""
    application = flink_on_yarn.application("Orders app", ORDERS, tags=["Prod", "team-a"])
    application.wait_for_job("orders")
    yield application
    application.kill()


@pytest.fixture(scope="module")
def reports(flink_on_yarn: FlinkOnYarn) -> Iterator[YarnApplication]:
    """Give a session with the job "reports" of bob."""
    session = flink_on_yarn.session("Reports session", queue="default", user="bob")
    flink_on_yarn.submit(session, REPORTS)
    yield session
    session.kill()


@pytest.fixture(scope="module")
def deployed(orders: YarnApplication, reports: YarnApplication) -> Deployed:
    """Give both."""
    return Deployed(orders, reports)


def labels_of(application: YarnApplication, queue: str) -> dict[str, str]:
    return {"yarn_application_id": application.id, "yarn_queue": queue, "yarn_user": application.user}


def test_jobs_shows_application_queue_and_user_of_every_job(deployed: Deployed, autoscaling: Autoscaling) -> None:
    listed = autoscaling.jobs()

    assert {name: one["labels"] for name, one in listed.items()} == {
        "orders": labels_of(deployed.orders, "orders"),
        "reports": labels_of(deployed.reports, "default"),
    }


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        pytest.param({"queues": "orders"}, {"orders"}, id="last name of a queue"),
        pytest.param({"queues": "root.streaming.orders"}, {"orders"}, id="path of a queue"),
        pytest.param({"users": "bob"}, {"reports"}, id="user"),
        pytest.param({"tags": "prod;other"}, {"orders"}, id="one of its tags"),
        pytest.param({"names": "Reports *"}, {"reports"}, id="pattern for the name"),
        pytest.param({"types": "Spark"}, set(), id="type"),
    ],
)
def test_jobs_of_other_applications_are_left_alone(
    autoscaling: Autoscaling, filters: dict[str, str], expected: set[str]
) -> None:
    listed = autoscaling.jobs(**filters)

    assert set(listed) == expected


@pytest.mark.parametrize("access", [pytest.param("proxy", marks=pytest.mark.guard), "direct"])
def test_a_busy_job_gets_more_subtasks_and_containers(
    access: str, request: pytest.FixtureRequest, autoscaling: Autoscaling
) -> None:
    # Only the one that is looked at: make test runs one of the two by itself.
    name = "orders" if access == "proxy" else "reports"
    application: YarnApplication = request.getfixturevalue(name)
    containers = application.report()["runningContainers"]

    daemon = autoscaling.daemon(access=access, users=application.user)
    daemon.wait_for("three subtasks", lambda: application.parallelism(name, job.WORK_VERTEX) >= 3, timeout=TIMEOUT)

    assert application.report()["runningContainers"] > containers
    assert any(line.get("yarn_application_id") == application.id for line in daemon.lines("job_rescale_requested"))


def test_the_next_attempt_of_an_application_is_followed(deployed: Deployed, autoscaling: Autoscaling) -> None:
    daemon = autoscaling.daemon(access="direct", users="alice")
    daemon.wait_for("the job", lambda: deployed.orders.id in daemon.text(), timeout=TIMEOUT)

    deployed.orders.kill_application_master()
    job_id = deployed.orders.wait_for_job("orders")

    daemon.wait_for("the job of the next attempt", lambda: job_id in daemon.text(), timeout=TIMEOUT)
    assert autoscaling.jobs(access="direct", users="alice")["orders"]["job_id"] == job_id


def test_no_job_counts_as_gone_when_the_resource_manager_fails_over(
    deployed: Deployed, autoscaling: Autoscaling, yarn_cluster: YarnCluster
) -> None:
    yarn_cluster.restore()
    daemon = autoscaling.daemon()
    daemon.wait_for("both jobs", lambda: len(daemon.lines("job_found")) == len(deployed), timeout=TIMEOUT)

    yarn_cluster.activate("rm2")
    deployed.orders.wait_for_job("orders")
    deployed.reports.wait_for_job("reports")
    daemon.wait_for("the other one", lambda: daemon.lines("resource_manager_changed"), timeout=TIMEOUT)

    assert set(autoscaling.jobs()) == {"orders", "reports"}
    assert daemon.lines("job_removed") == []


def test_the_job_of_a_killed_application_leaves_the_list(flink_on_yarn: FlinkOnYarn, autoscaling: Autoscaling) -> None:
    session = flink_on_yarn.session("Short session", user="carol", queue="payments")
    flink_on_yarn.submit(session, job.ScalingJob(name="short"))
    before = autoscaling.jobs(users="carol")

    session.kill()

    assert set(before) == {"short"}
    assert autoscaling.jobs(users="carol") == {}
