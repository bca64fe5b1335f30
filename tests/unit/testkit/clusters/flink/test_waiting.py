"""Waiting with a deadline."""

import pytest

from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.waiting import wait_until


def test_wait_until_gives_the_first_truthy_result() -> None:
    results = iter([None, 0, "there"])

    assert wait_until("something", lambda: next(results), interval=0) == "there"


def test_wait_until_tells_what_it_waited_for_and_what_it_saw() -> None:
    with pytest.raises(HarnessError, match=r"not within 0 s: two slots; last seen: \[\]\nthe log"):
        wait_until("two slots", list[int], 0, context=lambda: "the log")
