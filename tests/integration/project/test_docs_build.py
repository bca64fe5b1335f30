"""``make docs`` builds the site of this repository, and a broken link ends it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from docs_site.__main__ import build
from docs_site.staging import SiteError

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a repository with the configuration of this one, the names of its decisions and a few pages."""
    root = tmp_path / "project"
    (root / "docs" / "decisions").mkdir(parents=True)
    shutil.copy(PROJECT / "docs" / "zensical.toml", root / "docs" / "zensical.toml")
    decisions = [str(each.relative_to(PROJECT)) for each in PROJECT.glob("docs/decisions/*.md")]
    pages = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/index.md", "docs/decisions/extra.md")
    for name in (*pages, *decisions):
        (root / name).write_text("# A page\n\n## A section\n")
    return root


def test_the_site_has_all_pages_its_search_and_the_docstrings_of_the_ports(tmp_path: Path) -> None:
    site = build(PROJECT, tmp_path)

    assert "stabilization interval" in (site / "search.json").read_text()
    assert (
        'id="flink_autoscaler.core.ports.plugins.ScalingPolicy.propose"'
        in (site / "reference" / "api" / "plugins.html").read_text()
    )
    assert (site / "development" / "contributing.html").exists()
    assert (site / "reference" / "changelog.html").exists()


def test_broken_links_end_the_build_and_each_is_named(copy: Path, tmp_path: Path) -> None:
    links = ("[same page](#a-gone)", "[other page](decisions/extra.md#b-gone)", "[outside](../CONTRIBUTING.md#c-gone)")
    (copy / "docs" / "index.md").write_text("# A page\n\n" + "\n".join(links))

    with pytest.raises(SiteError) as raised:
        build(copy, tmp_path / "build")

    assert all(f"{each}-gone" in str(raised.value) for each in "abc")
    assert "Traceback" not in str(raised.value)
    assert not (tmp_path / "build" / "site").exists()


def test_a_broken_link_that_zensical_does_not_see_ends_the_build(copy: Path, tmp_path: Path) -> None:
    (copy / "docs" / "index.md").write_text('# A page\n\n<a href="gone.html">broken</a>\n')

    with pytest.raises(SiteError, match=r"index\.html: leads nowhere: gone\.html"):
        build(copy, tmp_path / "build")

    assert not (tmp_path / "build" / "site").exists()
