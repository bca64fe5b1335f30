"""Values that are made quickly are what plain frozen dataclasses are."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from flink_autoscaler.core.model.value import replace, value


@value
class Point:
    """A value with all kinds of fields."""

    x: int
    y: float = 1.0
    names: Mapping[str, int] = field(default_factory=dict)
    note: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PlainPoint:
    x: int
    y: float = 1.0
    names: Mapping[str, int] = field(default_factory=dict)
    note: str = field(default="", compare=False, repr=False)


@value
class Share:
    part: float
    whole: float = 1.0

    def __post_init__(self) -> None:
        if self.part > self.whole:
            raise ValueError("more than all")


def test_fields_have_what_was_given_and_their_defaults() -> None:
    point = Point(3, note="a")

    assert (point.x, point.y, point.names, point.note) == (3, 1.0, {}, "a")
    assert dataclasses.asdict(point) == dataclasses.asdict(PlainPoint(3, note="a"))
    assert repr(point) == repr(PlainPoint(3)).replace("PlainPoint", "Point")


def test_made_defaults_are_not_shared() -> None:
    assert Point(1).names is not Point(1).names


def test_equality_and_hash_go_by_the_fields_that_are_compared() -> None:
    assert Point(1, note="a") == Point(1, note="b")
    assert Point(1) != Point(2)
    assert hash(Share(0.5)) == hash(Share(0.5))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="x"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="z"):
        Point(1, z=2)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="z"):
        replace(Point(1), z=2)  # type: ignore[call-arg]


def test_changed_copy_differs_in_what_was_changed_alone() -> None:
    point = Point(1, 2.0, {"a": 1}, "note")

    changed = replace(point, y=3.0)

    assert type(changed) is Point
    assert (changed.x, changed.y, changed.names, changed.note) == (1, 3.0, {"a": 1}, "note")
    assert point.y == 2.0
    assert changed == dataclasses.replace(point, y=3.0)


def test_checks_run_when_a_value_is_made_and_when_it_is_changed() -> None:
    with pytest.raises(ValueError, match="more than all"):
        Share(2.0)
    with pytest.raises(ValueError, match="more than all"):
        replace(Share(0.5), part=2.0)


def test_values_travel() -> None:
    point = Point(1, 2.0, {"a": 1}, "note")

    for other in (pickle.loads(pickle.dumps(point)), copy.copy(point), copy.deepcopy(point)):
        assert (type(other), other, other.note) == (Point, point, "note")


def test_signature_names_the_fields() -> None:
    assert list(inspect.signature(Point).parameters) == ["x", "y", "names", "note"]


def test_fields_of_a_base_class_and_fields_without_a_parameter_are_refused() -> None:
    class Derived(PlainPoint):
        z: int = 0

    class Counted:
        z: int = field(default=0, init=False)

    for kind in (Derived, Counted):
        with pytest.raises(TypeError, match="inherited, or no parameters"):
            value(kind)
