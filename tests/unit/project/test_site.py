"""The site has every page and decision, its links lead somewhere, and its pictures are small and up to date."""

from __future__ import annotations

import dataclasses
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docs_site.api import api_pages
from docs_site.checking import DocsSite
from docs_site.commands import PAGE, page
from docs_site.roles import without_roles
from docs_site.staging import MOVED, SiteError, Stage, map_links
from pictures.diagrams import diagrams, mark

from flink_autoscaler.core import ports

PROJECT = Path(__file__).parents[3]
DOCS = PROJECT / "docs"
PICTURES = sorted((DOCS / "pictures").iterdir())
MOST_PICTURE_BYTES = 300_000


def navigated() -> dict[str, list[str]]:
    """Return the pages of each part of the navigation."""
    nav = tomllib.loads((DOCS / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    return {name: list(_pages(each)) for part in nav for name, each in part.items()}


def _pages(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _pages(each)


def test_the_navigation_has_four_parts() -> None:
    assert list(navigated()) == ["Start", "Guides", "Reference", "Development"]


def test_every_page_is_in_the_navigation_once() -> None:
    written = {file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md")}
    generated = {f"reference/api/{module}.md" for module, _ in api_pages()}

    shown = [each for part in navigated().values() for each in part]

    assert sorted(shown) == sorted(written | generated | set(MOVED.values()))


def test_every_decision_is_in_the_index_under_its_number() -> None:
    files = {int(file.name[:4]): file.name for file in (DOCS / "decisions").glob("0*.md")}
    index = (DOCS / "decisions" / "README.md").read_text(encoding="utf-8")

    rows = re.findall(r"^\| (\d+) \| \[[^]]+\]\(([^)]+)\) \| .+ \|$", index, flags=re.MULTILINE)

    assert {int(number): name for number, name in rows} == files


def test_the_page_of_the_command_line_is_what_the_commands_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it: PYTHONPATH=tools python -m docs_site.commands"


def test_the_api_has_every_name_that_the_ports_export() -> None:
    told = {name for _, text in api_pages() for name in re.findall(r"^::: [\w.]+\.(\w+)$", text, flags=re.MULTILINE)}

    constants = {name for name in ports.__all__ if not isinstance(getattr(ports, name), type)}
    assert told >= set(ports.__all__) - constants


@pytest.mark.parametrize("name", [name for name in ports.__all__ if dataclasses.is_dataclass(getattr(ports, name))])
def test_a_value_of_the_ports_tells_what_its_fields_are(name: str) -> None:
    value = getattr(ports, name)
    described = re.findall(r"^ {4}(\w+): ", inspect.cleandoc(value.__doc__), flags=re.MULTILINE)

    assert set(described) >= {field.name for field in dataclasses.fields(value)}


@pytest.mark.parametrize("source", diagrams(), ids=lambda source: source.name)
def test_a_diagram_is_drawn_from_its_present_text(source: Path) -> None:
    drawing = source.with_suffix(".svg").read_text(encoding="utf-8")

    assert drawing.startswith(mark(source.read_text(encoding="utf-8"))), "draw it: make diagrams"


def test_pictures_are_small() -> None:
    assert sum(picture.stat().st_size for picture in PICTURES) < MOST_PICTURE_BYTES


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_the_readme_shows_a_picture_and_says_what_it_shows(picture: Path) -> None:
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")

    [alternative] = re.findall(rf"!\[([^]]+)\]\(docs/pictures/{re.escape(picture.name)}\)", readme)

    assert len(alternative.split()) > 5


@pytest.mark.parametrize("picture", [*PICTURES, *DOCS.rglob("*.svg")], ids=lambda picture: picture.name)
def test_a_picture_loads_nothing(picture: Path) -> None:
    if picture.suffix == ".svg":
        assert not re.search(r"(?:href|src|url\()\W{0,2}(?:https?:)?//|@import", picture.read_text(encoding="utf-8"))


def test_a_link_in_a_fence_stays() -> None:
    text = "[a](b.md)\n```\n[a](b.md)\n```\n[a](b.md#c) ![a\nb](d.png)\n"

    assert map_links(text, lambda link: f"x/{link}") == (
        "[a](x/b.md)\n```\n[a](b.md)\n```\n[a](x/b.md#c) ![a\nb](x/d.png)\n"
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository with a page, a decision's folder and the files beside them."""
    root = tmp_path / "project"
    for name, text in {
        "README.md": "# It\n",
        "CONTRIBUTING.md": "[why](docs/decisions/)\n",
        "CHANGELOG.md": "# Changes\n",
        "conf/sample.yaml": "a: 1\n",
        "docs/index.md": "[change it](../CONTRIBUTING.md#set-up) [sample](../conf/sample.yaml)\n",
        "docs/decisions/README.md": "[first](../index.md)\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_links_lead_to_where_the_site_has_a_file(project: Path, tmp_path: Path) -> None:
    Stage(project, tmp_path / "site").fill()

    index = (tmp_path / "site" / "index.md").read_text()
    assert index == "[change it](development/contributing.md#set-up) [sample](files/conf/sample.yaml.md)\n"
    assert (tmp_path / "site" / "development" / "contributing.md").read_text() == "[why](../decisions/README.md)\n"
    assert "a: 1" in (tmp_path / "site" / "files" / "conf" / "sample.yaml.md").read_text()


def test_a_link_to_a_file_that_the_repository_lacks_is_refused(project: Path, tmp_path: Path) -> None:
    (project / "docs" / "index.md").write_text("[gone](../conf/gone.yaml)\n")

    with pytest.raises(SiteError, match=r"docs/index\.md: there is no \.\./conf/gone\.yaml"):
        Stage(project, tmp_path / "site").fill()


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        pytest.param('<a href="b.html#here">b</a><a href="./">top</a>', [], id="all there"),
        pytest.param('<a href="https://example.org/">away</a>', [], id="a link to elsewhere is allowed"),
        pytest.param('<a href="c.html">c</a>', ["index.html: leads nowhere: c.html"], id="page missing"),
        pytest.param('<a href="b.html#gone">b</a>', ["index.html: leads nowhere: b.html#gone"], id="anchor missing"),
        pytest.param('<img src="c.png">', ["index.html: is missing: c.png"], id="picture missing"),
        pytest.param(
            '<script src="https://example.org/a.js"></script>',
            ["index.html: comes from elsewhere: https://example.org/a.js"],
            id="script of another host",
        ),
    ],
)
def test_a_finished_page_is_checked(tmp_path: Path, body: str, fault: list[str]) -> None:
    (tmp_path / "index.html").write_text(body)
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1>')

    assert list(DocsSite(tmp_path).faults()) == fault


def test_roles_of_docstrings_become_code() -> None:
    assert without_roles("raise :class:`~a.b.StoreError`, see :meth:`load`") == "raise `StoreError`, see `load`"
