"""Dataclasses as JSON values: back as they were, and refused where they were damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from flink_autoscaler.core.policies.slo.codec import decode, encode


@dataclass(frozen=True)
class Part:
    count: int
    name: str = "part"


@dataclass(frozen=True)
class Whole:
    value: float
    series: bytes = b"\x00\xff"
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    pair: tuple[float, int] = (1.5, 2)
    by_edge: Mapping[tuple[str, str], float] = field(default_factory=dict)


WHOLE = Whole(2.0, b"abc", Part(3), (Part(1), Part(2, "other")), (0.5, 7), {("a", "b"): 1.0, ("b", "c"): 2.0})


@pytest.mark.parametrize("value", [Whole(1.0), WHOLE], ids=["defaults", "everything"])
def test_value_comes_back_as_it_was(value: Whole) -> None:
    assert decode(Whole, json.loads(json.dumps(encode(value)))) == value


def test_whole_number_is_read_as_a_float() -> None:
    assert decode(Whole, damaged(0, 2)).value == 2.0


def test_numbers_take_no_more_room_than_they_need() -> None:
    assert encode(Whole(1 / 3))[1][0] == 0.333333
    assert encode(Whole(1_700_000_000.125))[1][0] == 1_700_000_000.125


def damaged(place: int, value: Any) -> list[Any]:
    texts, body = encode(WHOLE)
    body[place] = value
    return [texts, body]


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(None, id="nothing"),
        pytest.param({}, id="mapping"),
        pytest.param([[], encode(WHOLE)[1][:-1]], id="field missing"),
        pytest.param([[], [*encode(WHOLE)[1], 1]], id="field too many"),
        pytest.param(damaged(0, "2.0"), id="text for a number"),
        pytest.param(damaged(0, True), id="truth for a number"),
        pytest.param(damaged(0, float("nan")), id="not a number"),
        pytest.param(damaged(0, None), id="missing number"),
        pytest.param(damaged(1, 5), id="number for bytes"),
        pytest.param(damaged(2, [1.5, "part"]), id="fraction for a count"),
        pytest.param(damaged(3, "parts"), id="text for a series"),
        pytest.param(damaged(5, [["a", 1.0]]), id="key of another form"),
        pytest.param([[1], encode(WHOLE)[1]], id="number for a text"),
        pytest.param([[], encode(WHOLE)[1]], id="text missing"),
    ],
)
def test_damaged_value_is_refused(stored: Any) -> None:
    with pytest.raises(ValueError, match=r"no .*Whole"):
        decode(Whole, stored)
