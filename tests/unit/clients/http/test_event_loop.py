"""A loop for threads, and threads for work that may hang."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from flink_autoscaler.clients.flink.decode import ParallelismBounds
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread, in_thread
from flink_autoscaler.core.errors import ConnectError
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, Fault


@pytest.fixture
def loop() -> Iterator[EventLoopThread]:
    thread = EventLoopThread()
    yield thread
    thread.close()


@pytest.fixture
def client(flink: FakeFlink, loop: EventLoopThread) -> Iterator[FlinkRestClient]:
    client = FlinkRestClient(flink.endpoint())
    yield client
    loop.run(client.aclose())


def test_client_answers_in_a_thread(flink: FakeFlink, loop: EventLoopThread, client: FlinkRestClient) -> None:
    job = flink.add_job()
    wanted = {vertex.vertex_id: ParallelismBounds(1, 2) for vertex in job.vertices}

    loop.run(client.set_resource_requirements(job.job_id, wanted))

    assert loop.run(client.resource_requirements(job.job_id)) == wanted
    assert [entry.job_id for entry in loop.run(client.jobs_overview())] == [job.job_id]
    assert loop.run(client.job_details(job.job_id)).job_id == job.job_id
    assert loop.run(client.job_configuration(job.job_id)) == loop.run(client.cluster_configuration())
    assert loop.run(client.job_user_config(job.job_id)) == {}
    assert loop.run(client.flink_version()) == "2.3.0"
    assert loop.run(client.jobmanager_metrics(("taskSlotsTotal",))).values == {"taskSlotsTotal": "16"}


def test_calls_of_several_threads_overlap(flink: FakeFlink, loop: EventLoopThread, client: FlinkRestClient) -> None:
    flink.delay = 0.05

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: loop.run(client.jobs_overview()), range(4)))

    assert flink.most_at_once == 4


def test_own_timeout_reaches_the_request(flink: FakeFlink, loop: EventLoopThread, client: FlinkRestClient) -> None:
    flink.fault("/jobs/", Fault.HANG)

    with pytest.raises(ConnectError, match=r"within 0\.1 s"):
        loop.run(client.job_details("0" * 32, timeout=0.1))


def test_waiting_for_a_coroutine_ends_and_cancels_it(loop: EventLoopThread) -> None:
    cancelled = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(ConnectError, match=r"not finished within 0\.05 s"):
        loop.run(forever(), 0.05)

    assert cancelled.wait(300)


def test_timeout_of_the_coroutine_itself_is_not_ours(loop: EventLoopThread) -> None:
    async def fails() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        loop.run(fails(), 300)


def test_closing_ends_calls_under_way(flink: FakeFlink) -> None:
    loop = EventLoopThread()
    client = FlinkRestClient(flink.endpoint(timeout=60.0))
    flink.fault("/jobs/overview", Fault.HANG)

    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(lambda: loop.run(client.jobs_overview()))
        wait_until("a request", lambda: flink.requests, interval=0.005)
        loop.close()

        with pytest.raises(ConnectError, match="closed meanwhile"):
            call.result(300)


def test_closed_loop_is_a_connect_error(flink: FakeFlink) -> None:
    loop = EventLoopThread()
    client = FlinkRestClient(flink.endpoint())

    loop.close()
    loop.close()

    with pytest.raises(ConnectError, match="has been closed"):
        loop.run(client.jobs_overview())


def test_in_thread_returns_the_result_from_another_thread() -> None:
    async def call() -> int:
        return await in_thread(threading.get_ident)

    assert asyncio.run(call()) != threading.get_ident()


def test_in_thread_raises_what_the_work_raises() -> None:
    def fail() -> None:
        raise LookupError("nothing there")

    async def call() -> None:
        await in_thread(fail)

    with pytest.raises(LookupError, match="nothing there"):
        asyncio.run(call())


def test_cancelled_wait_leaves_the_work_alone() -> None:
    go_on, ended = threading.Event(), threading.Event()

    def work() -> None:
        go_on.wait(300)
        ended.set()

    async def call() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_thread(work), 0.05)

    asyncio.run(call())
    go_on.set()

    assert ended.wait(300)


def test_process_ends_while_work_hangs() -> None:
    program = (
        "import asyncio, time\n"
        "from flink_autoscaler.clients.http.event_loop import in_thread\n"
        "async def main():\n"
        "    in_thread(lambda: time.sleep(600))\n"
        "asyncio.run(main())\n"
    )

    subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": ":".join(sys.path)}, check=True, timeout=300)
