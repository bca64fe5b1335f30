"""Style and scripts of the page: nothing newer than Firefox ESR 115 and Chromium 109, and one way to write figures."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from flink_autoscaler.pipeline.pages.rendering import style

STATIC = files("flink_autoscaler.standalone.web.page") / "static"
SCRIPTS = {each.name: each.read_text(encoding="utf-8") for each in STATIC.iterdir() if each.name.endswith(".js")}

NEWER_STYLE = {
    "light-dark(": "Firefox 120, Chromium 123",
    ":has(": "Firefox 121",
    "color-mix(": "Chromium 111",
    "oklch(": "Chromium 111",
    "@scope": "Chromium 118",
    "@starting-style": "Chromium 117",
    "text-wrap": "Chromium 114",
    "subgrid": "Chromium 117",
    "anchor(": "Chromium 125",
    "field-sizing": "Chromium 123",
}
NEWER_SCRIPT = {
    r"Object\.groupBy|Map\.groupBy": "Firefox 119, Chromium 117",
    r"\.toSorted\(|\.toReversed\(|\.toSpliced\(|\.with\(": "Chromium 110",
    r"Promise\.withResolvers|Promise\.try": "Firefox 121, Chromium 119",
    r"Array\.fromAsync": "Chromium 121",
    r"URL\.canParse|URL\.parse": "Chromium 120",
    r"AbortSignal\.any": "Firefox 124, Chromium 116",
    r"startViewTransition": "Chromium 111",
    r"showPopover|popover=": "Firefox 125, Chromium 114",
    r"\.union\(|\.intersection\(|\.difference\(": "Firefox 127, Chromium 122",
    r"Iterator\.from|\.entries\(\)\.(map|filter|toArray)\(": "Firefox 131, Chromium 122",
    # Of parameters of an address; sets and maps have had a size for long.
    r"(given|[pP]arameters|searchParams)\.size": "Chromium 113",
}


@pytest.mark.parametrize("name", NEWER_STYLE)
def test_the_style_has_nothing_that_old_browsers_do_not_know(name: str) -> None:
    assert name not in style(), f"since {NEWER_STYLE[name]}"


def test_rules_of_the_style_are_not_nested_in_others() -> None:
    depth, deepest = 0, 0
    for text in re.findall(r"@(?:media|supports)[^{]*\{|[{}]", re.sub(r"/\*.*?\*/", "", style(), flags=re.DOTALL)):
        depth += -1 if text == "}" else 0 if text.startswith("@") else 1
        depth += 1 if text.startswith("@") else 0
        deepest = max(deepest, depth)

    assert (depth, deepest) == (0, 2)  # a rule within a query of the media
    assert "&" not in style()


@pytest.mark.parametrize("pattern", NEWER_SCRIPT)
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_scripts_have_nothing_that_old_browsers_do_not_know(name: str, pattern: str) -> None:
    assert re.search(pattern, SCRIPTS[name]) is None, f"since {NEWER_SCRIPT[pattern]}"


@pytest.mark.parametrize("name", sorted(set(SCRIPTS) - {"format.js"}))
def test_numbers_and_instants_are_written_in_one_place(name: str) -> None:
    found = re.findall(r"toPrecision|toFixed|padStart|toLocale\w*|Intl\.\w+|getFullYear", SCRIPTS[name])

    assert found == []
