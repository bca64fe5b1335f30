"""The page as text: complete, and safe whatever jobs are called."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from report_setup.values import EVIL, a_report

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.reports import require_libraries
from flink_autoscaler.pipeline.reports.fleet import fleet_page
from flink_autoscaler.pipeline.reports.page import duration, number


class Elements(HTMLParser):
    """Everything that a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._is_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._is_data = tag == "script" and dict(attrs).get("type") == "application/json"

    def handle_data(self, data: str) -> None:
        (self.scripts if self._is_data else self.texts).append(data)

    def handle_endtag(self, tag: str) -> None:
        self._is_data = False


@pytest.fixture(scope="module")
def page() -> str:
    return fleet_page(a_report())


@pytest.fixture(scope="module")
def elements(page: str) -> Elements:
    found = Elements()
    found.feed(page)
    return found


def test_foreign_texts_are_texts(elements: Elements) -> None:
    assert "img" not in {tag for tag, _ in elements.tags}
    assert not any(name.startswith("on") for _, attributes in elements.tags for name in attributes)
    assert any(EVIL in text for text in elements.texts)


def test_nothing_comes_from_elsewhere(elements: Elements) -> None:
    links = [value for _, attributes in elements.tags for name, value in attributes.items() if name in ("src", "href")]

    assert {str(link)[0] for link in links} <= {"#", "d"}
    (policy,) = [attributes["content"] for _, attributes in elements.tags if "http-equiv" in attributes]
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")


def test_every_chart_carries_its_data(elements: Elements) -> None:
    items = [json.loads(each) for each in elements.scripts]

    # Of the fleet, of the job without a forecast and without lag, and of the other one.
    assert len(items) == 4 + 3 + 5
    assert all(item["doc"]["version"] for item in items)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Jobs that need a person", id="jobs that need a person"),
        pytest.param("since a crash loop", id="the reason of a concern"),
        pytest.param("map 4 → 6", id="rescales"),
        pytest.param("too few slots", id="their reasons"),
        pytest.param("1 file was damaged", id="warnings"),
        pytest.param("Top talkers", id="top talkers"),
        pytest.param("off by 12%", id="forecast against actual"),
        pytest.param("No forecast against actual: too little history", id="why there is no forecast"),
    ],
)
def test_the_page_tells(page: str, text: str) -> None:
    assert text in page


def test_reports_are_incomplete_when_no_job_has_enough_passes() -> None:
    report = replace(a_report(), warnings=())
    short = replace(report, jobs=report.jobs[-1:], sections=())

    assert report.problems == ()
    assert short.problems == ("no job has enough passes for charts",)
    assert "no job has enough passes" in fleet_page(short)


@pytest.mark.parametrize("library", ["bokeh", "jinja2"])
def test_missing_library_is_told_with_how_to_install_it(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(ConfigError, match=rf"reports need {library}: pip install 'flink-autoscaler\[report\]'"):
        require_libraries()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(None, "–", id="not known"),
        pytest.param(float("nan"), "–", id="not a number"),
        pytest.param(0, "0", id="nothing"),
        pytest.param(0.1234, "0.123", id="three digits"),
        pytest.param(1234.5, "1,234", id="thousands"),
        pytest.param(12_345, "12.3 k", id="ten thousand"),
        pytest.param(3.2e9, "3.2 G", id="billions"),
        pytest.param(-25_000.0, "-25 k", id="negative"),
    ],
)
def test_numbers_are_written_for_people(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(None, "–", id="not known"),
        pytest.param(12.34, "12.3 s", id="seconds"),
        pytest.param(600, "10 min", id="minutes"),
        pytest.param(7260, "2 h 1 min", id="hours"),
    ],
)
def test_durations_are_written_for_people(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def models(page: str, title: str) -> list[dict[str, Any]]:
    """Return what one chart is made of."""
    found = Elements()
    found.feed(page)
    titles = re.findall(r"<figcaption>(.*?) <span", page)
    (item,) = [json.loads(data) for name, data in zip(titles, found.scripts, strict=True) if name == title][:1]
    collected: list[dict[str, Any]] = []
    _collect(item["doc"], collected)
    return collected


def _collect(value: object, found: list[dict[str, Any]]) -> None:
    if isinstance(value, dict):
        if value.get("type") == "object":
            found.append(value)
        for each in value.values():
            _collect(each, found)
    elif isinstance(value, list):
        for each in value:
            _collect(each, found)


def lengths_of_areas(page: str, title: str) -> list[int]:
    """Return how many points each filled stretch of a chart has."""
    areas = [each for each in models(page, title) if each["name"] == "GlyphRenderer" and "VArea" in json.dumps(each)]
    return [json.loads(re.findall(r'"shape": (\[\d+\])', json.dumps(each["attributes"]))[0])[0] for each in areas]


def test_an_area_begins_where_something_is_known() -> None:
    report = a_report()
    slots = [None, None, 6.0, 6.0, None, 8.0, 8.0, 8.0, *[None] * (report.period.count - 8)]

    page = fleet_page(replace(report, fleet=replace(report.fleet, slots=slots)))

    assert lengths_of_areas(page, "Slots") == [2, 3]


def test_what_is_counted_has_whole_numbers_on_its_axis(page: str) -> None:
    assert any(
        each["name"] == "BasicTicker" and ("min_interval", 1) in dict(each["attributes"]).items()
        for each in models(page, "Rescales")
    )


def test_a_title_is_not_its_own_unit(page: str) -> None:
    captions = re.findall(r'<figcaption>(.*?) <span class="unit">(.*?)</span>', page)

    assert captions
    assert not [title for title, unit in captions if title.lower() == unit]


def test_a_rescale_that_was_undone_is_not_reached() -> None:
    report = a_report()
    section = next(each for each in report.sections if each.rescales)
    undone = replace(section.rescales[0], stage="reached", is_reverted=True)
    page = fleet_page(replace(report, sections=(replace(section, rescales=(undone,)),)))

    row = page.partition('class="bad"')[2].partition("</tr>")[0]
    assert "<td>rolled back</td>" in row
    assert "reached" not in row
