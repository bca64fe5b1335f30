"""Garbage that is collected between passes, and what is not looked at every time."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from flink_autoscaler.pipeline.engine.garbage import DURING_A_PASS, EVERYTHING, YOUNG, Garbage
from flink_autoscaler.pipeline.spark.settings import source_path


class Knot:
    """Something that holds itself."""

    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(1_000_000, 50, 50)
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def new_objects(count: int = 20_000) -> list[list[int]]:
    gc.collect(0)
    return [[number] for number in range(count)]


def test_what_a_pass_left_is_collected_and_what_stays_is_put_aside() -> None:
    kept, knot = new_objects(), weakref.ref(Knot())
    before = gc.get_freeze_count()

    Garbage().after_pass()

    assert knot() is None
    assert gc.get_freeze_count() >= before + len(kept)


def test_garbage_of_what_had_stayed_is_collected_after_a_while() -> None:
    now = [0.0]
    garbage, objects, knot = Garbage(lambda: now[0]), new_objects(), Knot()
    gone = weakref.ref(knot)
    garbage.after_pass()
    del knot

    objects += new_objects()
    garbage.after_pass()
    assert gone() is not None
    now[0] = EVERYTHING
    garbage.after_pass()

    assert gone() is None


def a_garbage_that_took(seconds: float, later: float) -> Garbage:
    """Return one whose first look took some seconds, and whose next pass ends at an instant."""
    instants = iter([0.0, 0.0, seconds, later, later])
    garbage = Garbage(lambda: next(instants))
    garbage.after_pass()
    return garbage


@pytest.mark.parametrize(
    ("later", "is_due"),
    [
        pytest.param(190.0, False, id="nine hundred times as long after it: not yet"),
        pytest.param(210.0, True, id="a thousand times as long: again"),
    ],
)
def test_looking_takes_a_thousandth_of_the_time_at_most(later: float, is_due: bool) -> None:
    garbage, gone = a_garbage_that_took(0.2, later), weakref.ref(Knot())

    garbage.after_pass()

    assert (gone() is None) is is_due


def test_much_that_is_left_is_looked_at_at_once() -> None:
    garbage, gone = a_garbage_that_took(0.2, 1.0), weakref.ref(Knot())
    left = [[number] for number in range(YOUNG + 1000)]

    garbage.after_pass()

    assert gone() is None
    assert left


def test_what_is_there_at_the_start_is_spared() -> None:
    program = (
        "import gc; from flink_autoscaler.pipeline.engine.garbage import spare_collector; "
        "spare_collector(); print(gc.get_freeze_count() > 1000, gc.get_threshold()[0])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": source_path()}, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["True", str(DURING_A_PASS)]
