"""Early passes: what is granted of what policies ask for."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model.early import HOUR_MS, EarlyPass, EarlyPasses, LookAgain

MINUTE = 60_000
START = 1_700_000_000_000


def a_wish(at_ms: int, per_hour: int = 12) -> LookAgain:
    return LookAgain(at_ms, "eager", per_hour)


def test_a_wish_is_granted_before_the_pass_that_is_due() -> None:
    early, _ = EarlyPasses().after({"a": a_wish(15_000)}, now_ms=1_000, due_ms=MINUTE)

    assert early == EarlyPass(15_000, {"a": a_wish(15_000)})
    assert early.asked_by == "eager of a"


def test_nothing_is_granted_without_a_wish() -> None:
    passes = EarlyPasses({"a": (5,)})

    assert passes.after({}, now_ms=0, due_ms=MINUTE) == (None, passes)


def test_a_wish_that_comes_no_sooner_than_what_is_due_is_not_granted() -> None:
    assert EarlyPasses().after({"a": a_wish(MINUTE)}, now_ms=0, due_ms=MINUTE).early is None


def test_a_pass_that_would_not_end_before_the_next_is_not_granted() -> None:
    wishes = {"a": a_wish(15_000)}

    assert EarlyPasses().after(wishes, now_ms=0, due_ms=MINUTE, took_ms=45_000).early is None
    assert EarlyPasses().after(wishes, now_ms=0, due_ms=MINUTE, took_ms=44_999).early is not None


def test_a_wish_for_an_instant_that_is_over_is_granted_now() -> None:
    early, _ = EarlyPasses().after({"a": a_wish(10)}, now_ms=20, due_ms=MINUTE)

    assert early == EarlyPass(20, {"a": a_wish(10)})


def test_a_job_that_has_had_its_share_is_not_asked_for() -> None:
    passes = EarlyPasses({"a": (MINUTE, 2 * MINUTE)})
    wishes = {"a": a_wish(3 * MINUTE, 2), "b": a_wish(3 * MINUTE, 2)}

    early, after = passes.after(wishes, now_ms=3 * MINUTE, due_ms=4 * MINUTE)
    later = passes.after({"a": wishes["a"]}, now_ms=HOUR_MS + MINUTE, due_ms=2 * HOUR_MS).early

    assert early is not None
    assert list(early.wishes) == ["b"]
    assert after.granted == {"a": (MINUTE, 2 * MINUTE), "b": (3 * MINUTE,)}
    assert later is not None


def test_many_who_ask_are_counted() -> None:
    early = EarlyPass(0, {f"job {n}": a_wish(0) for n in range(5)})

    assert early.asked_by == "eager of job 0, eager of job 1, eager of job 2 and 2 more"


PASSES = st.lists(st.sets(st.sampled_from("abc")), min_size=1, max_size=150)


@given(asked=PASSES, interval=st.integers(5_001, 400_000), delay=st.integers(5_000, 60_000), per_hour=st.integers(0, 4))
def test_passes_are_never_doubled_and_no_job_has_more_than_its_share(
    asked: list[set[str]], interval: int, delay: int, per_hour: int
) -> None:
    passes, granted = EarlyPasses(), list[tuple[int, EarlyPass]]()
    for number, jobs in enumerate(asked):
        now = START + number * interval
        wishes = {job: a_wish(now + delay, per_hour) for job in jobs}
        early, passes = passes.after(wishes, now_ms=now, due_ms=now + interval)
        if early is not None:
            granted.append((now, early))

    assert len(granted) <= len(asked)
    for now, early in granted:
        assert now + delay <= early.at_ms < now + interval
        hour = Counter(
            job
            for _, other in granted
            for job in other.wishes
            if early.at_ms - HOUR_MS + delay < other.at_ms <= early.at_ms
        )
        assert all(count <= per_hour for count in hour.values())


@given(jumps=st.lists(st.integers(-2 * HOUR_MS, 2 * HOUR_MS), max_size=60))
def test_clocks_that_jump_leave_little_behind(jumps: list[int]) -> None:
    passes, now = EarlyPasses(), START
    for jump in jumps:
        now += jump
        _, passes = passes.after({"a": a_wish(now)}, now_ms=now, due_ms=now + MINUTE)

    assert sum(map(len, passes.granted.values())) <= 12
