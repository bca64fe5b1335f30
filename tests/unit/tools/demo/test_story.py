from __future__ import annotations

import pytest
from demo.daemon_log import Change, Considered, Decision, Requested, Trouble
from demo.story import Look, Story, shortfalls

UP = Decision(10.0, (Change("work", 1, 4, 500.0, 1300.0),))
DOWN = Decision(50.0, (Change("work", 4, 2, 2000.0, 150.0),))


def told(*parts: Look | Decision) -> Story:
    """A story that starts with parallelism 1 and hears and sees the parts in turn."""
    story = Story({"a": "source", "b": "work"})
    story.see(Look(0.0, {"source": 1, "work": 1}))
    for part in parts:
        if isinstance(part, Look):
            story.see(part)
        else:
            story.hear(part)
    return story


def running(at: float, work: int, lag: float | None = 0.0) -> Look:
    return Look(at, {"source": 1, "work": work}, lag)


def test_rescale_is_confirmed_when_the_job_runs_with_another_parallelism() -> None:
    story = told(UP, Look(11.0), running(13.0, 4))

    (rescale,) = story.rescales
    assert (rescale.at, rescale.vertex, rescale.before, rescale.after) == (13.0, "work", 1, 4)
    assert rescale.change is UP.changes[0]
    assert rescale.is_up


def test_request_alone_confirms_nothing() -> None:
    story = told(UP, running(11.0, 1))

    story.hear(Requested(10.0, {"b": 4}))

    assert (story.rescales, story.wanted, story.parallelism["work"]) == ([], {"work": 4}, 1)


def test_rescale_by_somebody_else_has_no_decision() -> None:
    story = told(running(13.0, 4))

    assert [rescale.change for rescale in story.rescales] == [None]


def test_notes_tell_decisions_confirmations_and_warnings_in_order() -> None:
    story = told(UP, running(13.0, 4))

    story.hear(Trouble(14.0, "cluster_failed: no answer"))

    assert [note.text for note in story.notes] == [
        "decided: work 1 -> 4 (input 1,300/s, capacity 500/s with 1)",
        "confirmed: work runs with 4, had 1",
        "warning: cluster_failed: no answer",
    ]


def test_thinking_is_what_the_last_pass_came_to() -> None:
    story = told()

    story.hear(Considered(1.0, "collecting", ()))
    story.hear(Considered(2.0, "executed", ("fine",)))

    assert story.thinking == Considered(2.0, "executed", ("fine",))


def test_lag_is_the_last_known_one_and_peak_lag_the_greatest() -> None:
    story = told(running(1.0, 1, 900.0), running(2.0, 1, 30.0), running(3.0, 1, None))

    assert (story.lag, story.peak_lag) == (30.0, 900.0)


def test_arrivals_count_what_waits_and_what_was_taken_also_across_a_restart() -> None:
    # 100 records/s arrive; from second 10 to 20 nothing is taken and nothing answered.
    looks = [Look(float(s), None, 0.0, s * 100.0) for s in range(11)]
    looks += [Look(float(s), None) for s in range(11, 20)]
    looks += [Look(20.0, None, 1000.0, 1000.0), Look(21.0, None, 1100.0, 1000.0)]

    arrivals = told(*looks).arrivals()

    assert arrivals[-1][0] == 21.0
    assert [rate for _, rate in arrivals] == pytest.approx([100.0] * len(arrivals))


def test_arrivals_are_not_thrown_off_by_numbers_of_before_a_restart() -> None:
    looks = [Look(float(s), None, 0.0, s * 100.0) for s in range(11)]
    stale = Look(11.0, None, 0.0, 300.0)

    assert told(*looks, stale).arrivals() == told(*looks).arrivals()


@pytest.mark.parametrize(
    ("story", "missing"),
    [
        pytest.param(told(UP, running(13.0, 4), DOWN, running(53.0, 2)), [], id="up, down and drained"),
        pytest.param(told(UP, DOWN), ["scale-up", "scale-down", "did not tell the lag"], id="decided, never confirmed"),
        pytest.param(told(UP, running(13.0, 4)), ["scale-down"], id="only up"),
        pytest.param(told(running(13.0, 4), running(53.0, 2)), ["scale-up", "scale-down"], id="not by the daemon"),
        pytest.param(
            told(UP, running(13.0, 4), DOWN, running(53.0, 2, 301.0)), ["301 records wait"], id="lag not drained"
        ),
        pytest.param(
            told(UP, running(13.0, 4), DOWN, running(53.0, 2, 301.0), running(54.0, 2, 0.0)),
            ["301 records wait"],
            id="a lag of 0 that has not lasted",
        ),
        pytest.param(
            told(UP, running(13.0, 4), DOWN, running(53.0, 2, 301.0), running(63.0, 2, 300.0)), [], id="drained at last"
        ),
    ],
)
def test_shortfalls_name_what_is_missing(story: Story, missing: list[str]) -> None:
    found = shortfalls(story, drained_lag=300.0)

    assert len(found) == len(missing)
    assert all(part in text for part, text in zip(missing, found, strict=True))
