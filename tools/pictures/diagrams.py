"""``python -m pictures.diagrams``: draw the Mermaid diagrams of ``docs/`` as SVG files beside them.

The site and Git hosts then show a picture that loads nothing; Mermaid itself (5.5 MB of JavaScript) comes from npm, and
only here.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from selenium.webdriver import Chrome

from pictures.browser import chromium
from testkit.clusters.flink.errors import HarnessError

PROJECT = Path(__file__).parents[2]
MERMAID = "mermaid@12.3.0"
_SETTINGS = {
    "startOnLoad": False,
    "theme": "neutral",
    "htmlLabels": False,  # texts, not HTML in the SVG: everything draws those
    "flowchart": {"htmlLabels": False, "useMaxWidth": False, "rankSpacing": 30, "wrappingWidth": 280},
    "fontFamily": "DejaVu Sans, Verdana, sans-serif",  # of the reader's machine, widths to spare
}
_ON_WHITE = '<svg style="background: white" '
_DRAW = """
const [source, settings, done] = arguments;
mermaid.initialize(settings);
mermaid.render("diagram", source).then(drawn => done(drawn.svg), error => done("error: " + error));
"""


def diagrams() -> list[Path]:
    """Return the sources of all diagrams."""
    return sorted((PROJECT / "docs").rglob("*.mmd"))


def mark(source: str) -> str:
    """Return the comment by which a drawing says what it was drawn from."""
    return f"<!-- {MERMAID} {hashlib.sha256(source.encode()).hexdigest()[:16]} -->"


def draw(chrome: Chrome, source: str) -> str:
    """Return a diagram as SVG on white, so that it reads in light and in dark pages.

    Raises:
        HarnessError: Mermaid does not understand it.
    """
    svg: str = chrome.execute_async_script(_DRAW, source, _SETTINGS)
    if svg.startswith("error"):
        raise HarnessError(svg)
    return f"{mark(source)}\n{svg.replace('<svg ', _ON_WHITE, 1)}\n"


def _script(directory: Path) -> Path:
    """Get Mermaid through npm; return its script."""
    subprocess.run(["npm", "pack", MERMAID, "--silent"], cwd=directory, check=True, stdout=subprocess.DEVNULL)
    [archive] = directory.glob("*.tgz")
    with tarfile.open(archive) as opened:
        opened.extract("package/dist/mermaid.min.js", directory, filter="data")
    return directory / "package" / "dist" / "mermaid.min.js"


def main() -> int:
    """Draw all diagrams; return the exit status."""
    with tempfile.TemporaryDirectory() as name, chromium() as chrome:
        page = Path(name) / "page.html"
        page.write_text(f'<!doctype html><meta charset="utf-8"><script src="{_script(Path(name)).as_uri()}"></script>')
        chrome.get(page.as_uri())
        for source in diagrams():
            source.with_suffix(".svg").write_text(draw(chrome, source.read_text(encoding="utf-8")), encoding="utf-8")
            print(f"diagrams: {source.with_suffix('.svg')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
