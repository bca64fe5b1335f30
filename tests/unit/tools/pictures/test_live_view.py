from __future__ import annotations

import io
import xml.etree.ElementTree as ET

from demo.plan import plan_for
from demo.screen import Frame
from demo.story import Look, Story
from pictures.live_view import RecordingScreen
from rich.console import Console

PLAN = plan_for(300)
START = 1000.0


def a_recording() -> RecordingScreen:
    return RecordingScreen(Console(file=io.StringIO(), width=140))


def play(recording: RecordingScreen, parallelism: dict[int, int], seconds: int) -> None:
    """Show a frame per second of a job whose parallelism changes at the seconds given, each time by the daemon."""
    story, now = Story(), 1
    for second in range(seconds):
        if second in parallelism:
            change = {
                "name": "work",
                "current": now,
                "new": parallelism[second],
                "capacity": 100.0,
                "target_rate": 200.0,
            }
            decision = {"event": "scaling_report", "is_executed": True, "vertices": [change], "at": START + second}
            story.add_log_record(decision)
            now = parallelism[second]
        story.add_sample(Look(START + second, {"work": now}, float(second), 100.0 * second))
        recording.show(Frame(PLAN, story, start=START, now=START + second, engine="inline"))


def test_nothing_is_kept_before_a_scale_up_has_settled() -> None:
    recording = a_recording()

    play(recording, {10: 2}, seconds=18)

    assert recording.svg == ""


def test_the_picture_of_the_last_settled_scale_up_is_kept() -> None:
    recording = a_recording()

    play(recording, {10: 2, 30: 4, 50: 1}, seconds=80)

    assert "38&#160;of&#160;300" in recording.svg
    assert "2&#160;-&gt;&#160;4" in recording.svg
    assert "4&#160;-&gt;&#160;1" not in recording.svg


def test_the_picture_is_xml_that_loads_nothing() -> None:
    recording = a_recording()

    play(recording, {10: 2}, seconds=30)

    ET.fromstring(recording.svg)
    assert "url(http" not in recording.svg
    assert "@font-face" not in recording.svg
