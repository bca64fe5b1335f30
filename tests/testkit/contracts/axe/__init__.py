"""axe-core (https://github.com/dequelabs/axe-core, MPL-2.0): what keeps people from using a page, found in a browser.

The script comes from npm once, with a checksum that is written down here, into the cache beside Flink's jars; it is no
part of the project.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import httpx

from testkit.clusters.flink.cache import cache_directory, make_once

VERSION: Final = "4.14.1"
_ARCHIVE: Final = f"https://registry.npmjs.org/axe-core/-/axe-core-{VERSION}.tgz"
_SHA256: Final = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"
_SCRIPT: Final = "package/axe.min.js"
_GRAVE: Final = ("serious", "critical")

# Without preloading, which would fetch style sheets again. Resolved texts are all that a test needs.
_RUN: Final = """
const done = arguments[arguments.length - 1];
axe.run(document, { preload: false, resultTypes: ["violations"] }).then(
  found => done(found.violations.map(each => ({
    id: each.id, impact: each.impact, help: each.help,
    places: each.nodes.map(node => `${node.target.join(" ")}: ${node.failureSummary}`),
  }))),
  error => done([{ id: "axe", impact: "critical", help: String(error), places: [] }]));
"""


@cache
def script() -> str:
    """Return the script of axe-core, fetching it where it is not in the cache.

    Raises:
        httpx.HTTPError: Nobody sends it.
    """
    return (make_once(cache_directory() / f"axe-core-{VERSION}", _fetch) / "axe.min.js").read_text(encoding="utf-8")


def _fetch(into: Path) -> None:
    answer = httpx.get(_ARCHIVE, timeout=60.0).raise_for_status()
    assert hashlib.sha256(answer.content).hexdigest() == _SHA256, f"{_ARCHIVE} is another one"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as opened:
        member = opened.extractfile(_SCRIPT)
        assert member is not None
        into.joinpath("axe.min.js").write_bytes(member.read())


def findings(page: Any) -> list[str]:
    """Return what axe-core finds on the page that a browser shows, as far as it is serious or critical.

    Args:
        page: A ``selenium`` driver; its scripts are not subject to the page's Content-Security-Policy.
    """
    page.execute_script(script())
    found = page.execute_async_script(_RUN)
    return [
        f"{each['impact']} {each['id']}: {each['help']}: {place}"
        for each in found
        if each["impact"] in _GRAVE
        for place in each["places"] or [""]
    ]
