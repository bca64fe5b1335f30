"""What the page brings along from others: unchanged, with its licence, and small."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files

import pytest

STATIC = files("flink_autoscaler.standalone.web.page") / "static"

# Of npm's uplot-1.6.32.tgz (sha256 4b8a8191e425658e3ea8c8c1314b0fc679c861ee3a1af2b20c7b16ba50b5133d) and
# dagrejs-dagre-3.1.3.tgz (sha256 12441833c8af49e5a241d94bfd53159875965876b3f4f3214abafe1ed6a9ee4c).
VENDORED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uPlot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    "dagre.min.js": "54a503e346f93ca0bb10abe7999587e037262935687aca45eb4e4b0f64bbb578",
    "dagre.LICENSE": "6a349742a6cb219d5a2fc8d0844f6d89a6efc62e20c664450d884fc7ff2d6015",
}


@pytest.mark.parametrize("name", VENDORED)
def test_what_is_vendored_is_what_its_authors_published(name: str) -> None:
    content = (STATIC / "vendor" / name).read_bytes()

    assert hashlib.sha256(content).hexdigest() == VENDORED[name]


def test_nothing_else_is_vendored() -> None:
    assert {each.name for each in (STATIC / "vendor").iterdir()} == set(VENDORED)


def test_scripts_are_small_over_the_wire() -> None:
    scripts = [*STATIC.iterdir(), *(STATIC / "vendor").iterdir()]
    sizes = {each.name: len(gzip.compress(each.read_bytes())) for each in scripts if each.name.endswith(".js")}

    assert sizes.pop("uPlot.iife.min.js") < 30_000
    assert sizes.pop("dagre.min.js") < 20_000
    assert sum(sizes.values()) < 20_000
