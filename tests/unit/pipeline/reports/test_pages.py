"""The page as text: complete, and safe whatever jobs are called."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from flink_autoscaler.pipeline.reports.pages import fleet_page
from testkit.builders.reports.values import EVIL, a_report


class Elements(HTMLParser):
    """Everything that a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


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
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert "script" not in {tag for tag, _ in elements.tags}


def test_every_chart_is_drawn_with_axes_and_tells_its_values(page: str) -> None:
    charts = page.split('<figure class="chart">')[1:]

    # Of the fleet, of the job without a forecast and without lag, and of the other one.
    assert len(charts) == 4 + 3 + 5
    assert all(chart.count("<title>2") == 48 and chart.count('<time class="clock"') == 5 for chart in charts)


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


def test_a_title_is_not_its_own_unit(page: str) -> None:
    captions = re.findall(r"<figcaption>(.*?) <small>(.*?)</small>", page)

    assert captions
    assert not [title for title, unit in captions if title.lower() == unit]


def test_a_rescale_that_was_undone_is_not_reached() -> None:
    report = a_report()
    section = next(each for each in report.sections if each.rescales)
    undone = {**section.rescales[0], "stage": "reached", "reverted": True}
    page = fleet_page(replace(report, sections=[replace(section, rescales=[undone])]))

    row = page.partition('class="bad"')[2].partition("</tr>")[0]
    assert "<td>rolled back</td>" in row
    assert "reached" not in row
