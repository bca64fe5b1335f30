"""Jobs are let in a few at a time, and those that wait for their cluster do not count for long."""

import asyncio
import time

from flink_autoscaler.clients.http.admission import BEHIND, Admission


async def held(admission: Admission, log: list[str], name: str, until: asyncio.Event) -> None:
    async with admission():
        log.append(name)
        await until.wait()


def test_no_more_than_so_many_are_let_in() -> None:
    async def main() -> list[str]:
        admission, log, first_ends = Admission(jobs=1, patience=60.0), list[str](), asyncio.Event()
        first = asyncio.ensure_future(held(admission, log, "first", first_ends))
        second = asyncio.ensure_future(held(admission, log, "second", first_ends))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        log.append("first ends")
        first_ends.set()
        await asyncio.gather(first, second)
        return log

    assert asyncio.run(main()) == ["first", "first ends", "second"]


def test_one_that_hangs_holds_up_others_but_briefly() -> None:
    async def main() -> list[str]:
        admission, log, never, done = Admission(jobs=1, patience=0.05), list[str](), asyncio.Event(), asyncio.Event()
        done.set()
        hanging = asyncio.ensure_future(held(admission, log, "hanging", never))
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await held(admission, log, "other", done)
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
        return log

    assert asyncio.run(main()) == ["hanging", "other"]


def test_place_is_given_back_once() -> None:
    async def main() -> list[str]:
        admission, log, ends, never = Admission(jobs=1, patience=0.01), list[str](), asyncio.Event(), asyncio.Event()
        first = asyncio.ensure_future(held(admission, log, "first", ends))
        second = asyncio.ensure_future(held(admission, log, "second", never))
        async with asyncio.timeout(10):
            while "second" not in log:
                await asyncio.sleep(0.001)
        third_admission = Admission(jobs=1, patience=60.0)
        third = asyncio.ensure_future(held(third_admission, log, "third", never))
        ends.set()
        await first
        fourth = asyncio.ensure_future(held(third_admission, log, "fourth", never))
        await asyncio.sleep(0)
        for task in (second, third, fourth):
            task.cancel()
        await asyncio.gather(second, third, fourth, return_exceptions=True)
        return log

    assert asyncio.run(main()) == ["first", "second", "third"]


def test_one_that_waits_for_a_busy_loop_counts_on() -> None:
    async def main() -> list[str]:
        admission, log, never = Admission(jobs=1, patience=0.01), list[str](), asyncio.Event()
        tasks = [asyncio.ensure_future(held(admission, log, name, never)) for name in ("first", "second")]
        await asyncio.sleep(0)
        end = time.monotonic() + 2 * BEHIND
        while time.monotonic() < end:  # the loop is busy
            pass
        for _ in range(3):
            await asyncio.sleep(0)
        log.append("loop is free")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return log

    assert asyncio.run(main())[:2] == ["first", "loop is free"]
