from __future__ import annotations

import dataclasses
import io

import pytest
from demo.plan import plan_for
from demo.screen import Frame, Screen, parallelism_text, picture, print_summary, sparkline, status_line
from demo.story import Look, Story
from rich.console import Console

PLAN = plan_for(150)


def a_frame(second: float, story: Story, waiting_for: tuple[str, ...] = ()) -> Frame:
    return Frame(PLAN, story, start=1000.0, now=1000.0 + second, engine="spark", waiting_for=waiting_for)


def a_story() -> Story:
    story = Story({"b": "work"})
    for second in range(21):
        story.add_sample(Look(1000.0 + second, {"work": 1}, 0.0, 150.0 * second))
    vertex = {"name": "work", "current": 1, "new": 4, "capacity": 500.0, "target_rate": 1300.0}
    story.add_log_record({"event": "scaling_report", "is_executed": True, "vertices": [vertex], "at": 1021.0})
    story.add_log_record({"event": "job_phase", "phase": "executed", "reasons": ["needs 1857 records/s"], "at": 1021.0})
    story.wanted["work"] = 4
    return story


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        pytest.param([], "", id="nothing yet"),
        pytest.param([(0.0, 0.0), (1.0, 0.0)], "▁▁", id="only zeros are flat"),
        pytest.param([(0.0, 0.0), (1.0, 7.0), (2.0, 3.0)], "▁█▄", id="the greatest value is the highest bar"),
        pytest.param([(0.0, 1.0), (0.5, 7.0), (1.0, 1.0)], "█▂", id="the greatest of a slice counts"),
        pytest.param([(0.0, 7.0), (3.0, 0.0)], "███▁", id="a gap shows the value before it"),
        pytest.param([(2.0, 1.0)], "  █", id="nothing before the first value"),
        pytest.param([(-1.0, 9.0), (0.0, 1.0), (4.0, 1.0)], "████", id="within the edges"),
    ],
)
def test_sparkline_draws_values_over_time(values: list[tuple[float, float]], drawn: str) -> None:
    assert sparkline(values, 0.0, 4.0, width=4) == drawn


@pytest.mark.parametrize(
    ("real", "wanted", "text"),
    [
        pytest.param(2, None, "2", id="nothing wanted yet"),
        pytest.param(2, 2, "2", id="as wanted"),
        pytest.param(2, 5, "2 (wanted 5)", id="not there yet"),
    ],
)
def test_parallelism_text_tells_what_is_wanted_only_while_it_differs(real: int, wanted: int | None, text: str) -> None:
    assert parallelism_text(real, wanted) == text


def test_status_line_tells_how_things_are() -> None:
    line = " ".join(status_line(a_frame(21, a_story(), ("no scale-down",))).split())

    assert line == "21 s arrival 150/s lag 0 parallelism: work 1 (wanted 4) [executed] waiting: no scale-down"


def test_status_line_admits_what_is_unknown() -> None:
    line = " ".join(status_line(a_frame(0, Story({}))).split())

    assert line == "0 s arrival - lag - parallelism: [-]"


def test_without_a_terminal_a_screen_prints_a_note_once_and_the_status_every_ten_seconds() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    story = a_story()

    screen = Screen(console)
    with screen.opened():
        for second in range(21, 34):
            screen.show(a_frame(second, story))

    lines = console.export_text().splitlines()
    assert [line.split()[0] for line in lines] == ["21", "21", "31"]
    assert "* decided: work 1 -> 4" in lines[0]


def test_picture_shows_everything_in_the_smallest_usual_terminal() -> None:
    console = Console(width=80, record=True, file=io.StringIO())

    console.print(picture(a_frame(21, a_story(), ("no scale-down",))))

    text = console.export_text()
    for part in (
        "21 of 150 s",
        "150/s",
        "1 (wanted 4)",
        "decided: work 1 -> 4",
        "needs 1857",
        "waiting: no scale-down",
    ):
        assert part in text
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 24


def test_picture_can_be_drawn_before_anything_is_known() -> None:
    console = Console(width=100, record=True, file=io.StringIO())

    console.print(picture(a_frame(0, Story({}))))

    assert "nothing yet" in console.export_text()


def test_summary_shows_rescales_and_numbers() -> None:
    console = Console(width=140, record=True, file=io.StringIO())
    totals = {
        "flink_autoscaler_passes_total": 43.0,
        "flink_autoscaler_passes_total on spark": 38.0,
        "flink_autoscaler_spark_fallbacks_total": 0.0,
    }
    story = a_story()
    story.add_sample(Look(1023.5, {"work": 4}, 12.0, 9000.0))
    story.add_sample(Look(1030.0, {"work": 3}, 12.0, 9000.0))
    story.rescales[-1] = dataclasses.replace(story.rescales[-1], change=None)

    print_summary(console, story, start=1000.0, totals=totals)

    text = " ".join(console.export_text().split())
    assert "21 s │ work │ 1 -> 4 │ yes, after 2.5 s │ input 1,300/s, capacity 500/s with 1" in text
    assert "30 s │ work │ 4 -> 3 │ yes, after 0.0 s │ not by the daemon" in text
    assert "peak lag 12 records final lag 12 records processed 9,000 records" in text
    assert "43 passes, 38 on Spark, 0 fell back" in text


def test_summary_of_a_demo_without_rescales_says_so() -> None:
    console = Console(width=140, record=True, file=io.StringIO())

    print_summary(console, Story(looks=[Look(100.0)]), start=100.0, totals={})

    assert "no rescale was decided" in console.export_text()
