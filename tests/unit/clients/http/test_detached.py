"""Threads for work that may hang."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from flink_autoscaler.clients.http.detached import in_thread


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
        go_on.wait(10)
        ended.set()

    async def call() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_thread(work), 0.05)

    asyncio.run(call())
    go_on.set()

    assert ended.wait(10)


def test_process_ends_while_work_hangs() -> None:
    program = (
        "import asyncio, time\n"
        "from flink_autoscaler.clients.http.detached import in_thread\n"
        "async def main():\n"
        "    in_thread(lambda: time.sleep(60))\n"
        "asyncio.run(main())\n"
    )
    begin = time.monotonic()

    subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": ":".join(sys.path)}, check=True, timeout=50)

    assert time.monotonic() - begin < 30.0
