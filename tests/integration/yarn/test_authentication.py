"""A real YARN with Hadoop's simple authentication, on which users see only their own applications."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.clusters.flink import job
from testkit.clusters.yarn import FlinkOnYarn, MavenUnreachableError, YarnApplication, YarnCluster
from testkit.clusters.yarn.autoscaling import Autoscaling
from testkit.clusters.yarn.secured import ADMIN, PRIVATE_QUEUES, simple_authentication

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="yarn")]

STRANGER = {"auth.kind": "simple", "auth.username": "mallory"}


@pytest.fixture(scope="module")
def yarn_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    site = simple_authentication(tmp_path_factory.mktemp("secret") / "http")
    try:
        cluster = YarnCluster(site=site, queues=PRIVATE_QUEUES, caller=ADMIN).start()
    except MavenUnreachableError as error:
        pytest.skip(f"needs Hadoop's jars from Maven Central: {error}")
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def orders(flink_on_yarn: FlinkOnYarn) -> YarnApplication:
    """Give an application cluster of alice that runs the job "orders"."""
    application = flink_on_yarn.application("Orders app", job.ScalingJob(name="orders"))
    application.wait_for_job("orders")
    return application


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("access", ["direct", "proxy"])
@pytest.mark.parametrize("user", ["alice", ADMIN], ids=["owner", "administrator"])
def test_who_may_view_an_application_finds_its_jobs(access: str, user: str, autoscaling: Autoscaling) -> None:
    listed = autoscaling.jobs(**{"auth.kind": "simple", "auth.username": user}, access=access)

    assert set(listed) == {"orders"}


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("access", ["auto", "proxy"])
def test_who_may_not_view_it_finds_its_jobs_through_the_proxy(access: str, autoscaling: Autoscaling) -> None:
    listed = autoscaling.jobs(**STRANGER, access=access)

    assert set(listed) == {"orders"}


def test_who_may_not_view_it_is_told_why_there_is_no_direct_access(
    orders: YarnApplication, autoscaling: Autoscaling
) -> None:
    problem = autoscaling.problem(**STRANGER, access="direct")

    assert orders.id in problem
    assert "view" in problem


@pytest.mark.usefixtures("orders")
def test_an_anonymous_caller_is_told_that_a_user_is_wanted(autoscaling: Autoscaling) -> None:
    problem = autoscaling.problem()

    assert "401" in problem
