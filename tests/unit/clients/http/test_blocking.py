"""The client for threads."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_flink import FakeFlink, Fault

from flink_autoscaler.clients.flink.decode import ParallelismBounds
from flink_autoscaler.clients.http.blocking import BlockingFlinkRestClient, EventLoopThread
from flink_autoscaler.core.errors import ConnectError, JobGoneError


@pytest.fixture
def loop() -> Iterator[EventLoopThread]:
    thread = EventLoopThread()
    yield thread
    thread.close()


@pytest.fixture
def client(flink: FakeFlink, loop: EventLoopThread) -> Iterator[BlockingFlinkRestClient]:
    blocking = BlockingFlinkRestClient(flink.endpoint(), loop)
    yield blocking
    blocking.close()


def test_client_answers_in_a_thread(flink: FakeFlink, client: BlockingFlinkRestClient) -> None:
    job = flink.add_job()
    wanted = {vertex.vertex_id: ParallelismBounds(1, 2) for vertex in job.vertices}

    client.set_resource_requirements(job.job_id, wanted)

    assert client.resource_requirements(job.job_id) == wanted
    assert [entry.job_id for entry in client.jobs_overview()] == [job.job_id]
    assert client.job_details(job.job_id).job_id == job.job_id
    assert client.job_configuration(job.job_id) == client.cluster_configuration()
    assert client.job_user_config(job.job_id) == {}
    assert client.cluster_config_info().flink_version == "2.3.0"
    assert client.jobmanager_metrics(("taskSlotsTotal",)) == {"taskSlotsTotal": "16"}


def test_errors_are_those_of_the_asynchronous_client(client: BlockingFlinkRestClient) -> None:
    with pytest.raises(JobGoneError):
        client.job_details("0" * 32)


def test_calls_of_several_threads_overlap(flink: FakeFlink, client: BlockingFlinkRestClient) -> None:
    flink.delay = 0.05

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: client.jobs_overview(), range(4)))

    assert flink.most_at_once == 4


def test_own_timeout_reaches_the_request(flink: FakeFlink, client: BlockingFlinkRestClient) -> None:
    flink.fault("/jobs/", Fault.HANG)

    with pytest.raises(ConnectError, match=r"within 0\.1 s"):
        client.job_details("0" * 32, timeout=0.1)


def test_waiting_for_a_coroutine_ends_and_cancels_it(loop: EventLoopThread) -> None:
    cancelled = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(ConnectError, match=r"not finished within 0\.05 s"):
        loop.run(forever(), 0.05)

    assert cancelled.wait(5)


def test_timeout_of_the_coroutine_itself_is_not_ours(loop: EventLoopThread) -> None:
    async def fails() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        loop.run(fails(), 5)


def test_closing_ends_calls_under_way(flink: FakeFlink) -> None:
    loop = EventLoopThread()
    client = BlockingFlinkRestClient(flink.endpoint(timeout=60.0), loop)
    flink.fault("/jobs/overview", Fault.HANG)

    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.jobs_overview)
        deadline = time.monotonic() + 5
        while not flink.requests and time.monotonic() < deadline:
            time.sleep(0.005)
        loop.close()

        with pytest.raises(ConnectError, match="closed meanwhile"):
            call.result(5)


def test_closed_loop_is_a_connect_error(flink: FakeFlink) -> None:
    loop = EventLoopThread()
    client = BlockingFlinkRestClient(flink.endpoint(), loop)

    loop.close()
    loop.close()

    with pytest.raises(ConnectError, match="has been closed"):
        client.jobs_overview()
