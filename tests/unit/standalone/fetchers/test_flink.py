from __future__ import annotations

import pytest

from flink_autoscaler.core.errors import FlinkRestError
from flink_autoscaler.core.model.job import JobStatus
from testkit.fakes.flink import Canned, FakeFlink, Fault, chain
from testkit.fakes.flink.fetching import MakeFetcher


def _config_requests(flink: FakeFlink) -> int:
    return sum(path.endswith("/jobmanager/config") for path in flink.paths())


def test_fetch_gives_the_context_of_every_job(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    job = flink.add_job("orders")
    fetcher = make_fetcher(flink)

    (context,) = fetcher.fetch().jobs

    assert (context.job_key, context.job_id, context.job_name) == ("main/orders", job.job_id, "orders")
    assert (context.cluster, context.endpoint, context.status) == ("main", flink.endpoint(), JobStatus.RUNNING)


def test_running_job_with_tasks_missing_counts_as_created(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    flink.add_job("orders", tasks={"running": 2, "total": 3})

    (context,) = make_fetcher(flink).fetch().jobs

    assert context.status is JobStatus.CREATED


def test_configuration_is_remembered_between_passes(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    flink.add_job("orders")
    flink.add_job("payments")
    fetcher = make_fetcher(flink)

    for _ in range(3):
        fetcher.fetch()

    assert flink.paths().count("/jobs/overview") == 3
    assert _config_requests(flink) == 2


def test_configuration_is_read_again_when_the_job_changed(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    job = flink.add_job("orders")
    fetcher = make_fetcher(flink)
    fetcher.fetch()

    job.configuration["job.autoscaler.enabled"] = "true"
    job.running_at_ms += 1000
    (context,) = fetcher.fetch().jobs

    assert context.configuration["job.autoscaler.enabled"] == "true"


def test_unreadable_job_is_read_in_the_next_pass(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    flink.add_job("orders")
    flink.fault("/jobmanager/config", Canned(b"{}", status=500), times=3)
    fetcher = make_fetcher(flink)

    first, second = fetcher.fetch(), fetcher.fetch()
    while second.unreadable:
        second = fetcher.fetch()

    assert list(first.unreadable) == ["main/orders"]
    assert [context.job_key for context in second.jobs] == ["main/orders"]


@pytest.mark.parametrize(
    "fault", [Fault.HANG, Fault.HTML, Fault.TRUNCATED_JSON, Fault.RESET, Fault.HUGE, Canned(b"{}", status=500)]
)
def test_list_that_cannot_be_read_is_an_error(
    flink: FakeFlink, make_fetcher: MakeFetcher, fault: Fault | Canned
) -> None:
    flink.add_job("orders")
    flink.fault("/jobs/overview", fault)

    with pytest.raises(FlinkRestError):
        make_fetcher(flink, timeout=0.5).fetch()


def test_fetch_works_again_after_an_error(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    flink.add_job("orders")
    fetcher = make_fetcher(flink, timeout=60.0)
    flink.pause()
    with pytest.raises(FlinkRestError):
        fetcher.fetch()

    flink.resume()

    assert len(fetcher.fetch().jobs) == 1


def test_many_configurations_are_read_at_once_within_the_limit(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    for number in range(40):
        flink.add_job(f"job {number}", chain(vertices=1))
    flink.delay = 0.02

    job_list = make_fetcher(flink).fetch()

    assert len(job_list.jobs) == 40
    assert 1 < flink.most_at_once <= flink.endpoint().max_connections
