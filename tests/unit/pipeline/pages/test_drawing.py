"""Curves as SVG: what is not known interrupts them, and axes are round."""

from __future__ import annotations

import re

import pytest

from flink_autoscaler.pipeline.pages.drawing import Curve, Times, Values, chart

TIMES = Times(0, 100, [(20, False), (40, True)])


def drawn(values: Values, *, is_step: bool = False, is_filled: bool = False) -> str:
    return str(chart("Load", "records/s", [Curve("arrives", values, is_step=is_step, is_filled=is_filled)], TIMES))


def paths(markup: str, kind: str) -> list[str]:
    return re.findall(rf'<path class="{kind}" d="(.*?)"/>', markup)


@pytest.mark.parametrize("values", [(), [(0, 1.0)], [(0, None), (50, 3.0)]])
def test_a_curve_without_two_values_is_no_chart(values: Values) -> None:
    assert drawn(values) == ""


def test_what_is_not_known_interrupts_a_curve() -> None:
    (path,) = paths(drawn([(0, 100.0), (25, 100.0), (50, None), (75, 50.0), (100, 50.0)]), "c0")

    assert path == "M4.0 4.0L162.0 4.0M478.0 80.0L636.0 80.0"


def test_an_area_goes_down_to_nothing_within_what_is_known() -> None:
    markup = drawn([(0, None), (50, 100.0), (75, 100.0), (100, None)], is_filled=True, is_step=True)

    assert paths(markup, "band c0") == ["M320.0 4.0H478.0V4.0V156.0H320.0Z"]


def test_a_single_value_is_a_dot() -> None:
    (path,) = paths(drawn([(0, 100.0), (50, None), (100, 100.0)]), "c0")

    assert path == "M4.0 4.0h0M636.0 4.0h0"


def test_what_happened_is_marked_and_what_went_wrong_from_top_to_bottom() -> None:
    markup = drawn([(0, 1.0), (100, 1.0)])

    assert (paths(markup, "mark"), paths(markup, "mark bad")) == (["M130.4 80V160"], ["M256.8 0V160"])


@pytest.mark.parametrize(
    ("top", "axis"),
    [
        pytest.param(1.0, ["2", "1", "0"], id="counted: no halves"),
        pytest.param(0.7, ["0.8", "0.4", "0"], id="shares"),
        pytest.param(730.5, ["800", "400", "0"], id="rates"),
        pytest.param(9_000_000.0, ["10,000,000", "5,000,000", "0"], id="millions"),
    ],
)
def test_axes_end_at_round_values(top: float, axis: list[str]) -> None:
    (values,) = re.findall(r'<div class="values".*?>(.*?)</div>', drawn([(0, 0.0), (100, top)]))

    assert re.findall("<span>(.*?)</span>", values) == axis


def test_parts_of_the_time_tell_their_values() -> None:
    titles = re.findall("<title>(.*?)</title>", drawn([(at, float(at)) for at in range(101)]), re.DOTALL)

    assert titles[0] == "1970-01-01 00:00 UTC\narrives: 2"
    assert titles[-1] == "1970-01-01 00:00 UTC\narrives: 99"


def test_foreign_names_are_texts() -> None:
    markup = chart("<i>", "<u>", [Curve("<b>", [(0, 1.0), (100, 2.0)])], TIMES)

    assert not {"<i>", "<u>", "<b>"} & set(re.findall("<.>", str(markup)))
    assert "&lt;b&gt;: 2" in markup
