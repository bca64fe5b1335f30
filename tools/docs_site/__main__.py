"""``python -m docs_site BUILD``: build the site into ``BUILD/site``; the exit status is 1 when a link is broken."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from docs_site.api import api_pages
from docs_site.checking import DocsSite
from docs_site.staging import SiteError, Stage

PROJECT = Path(__file__).parents[2]
_COLOR = re.compile(r"\x1b\[[\d;]*m")


def build(project: Path, build_folder: Path) -> Path:
    """Build the site of a repository; return its folder.

    Raises:
        SiteError: A link leads nowhere, a page loads something from another host, or Zensical refuses a page.
    """
    sources = build_folder / "site-source"
    stage = Stage(project, sources / "docs")
    stage.fill()
    for module, text in api_pages():
        stage.write(f"reference/api/{module}.md", text)
    shutil.copyfile(project / "docs" / "zensical.toml", sources / "zensical.toml")
    _run_zensical(sources)
    if faults := sorted(set(DocsSite(sources / "site").faults())):
        raise SiteError("\n".join(faults))
    shutil.rmtree(build_folder / "site", ignore_errors=True)
    return (sources / "site").rename(build_folder / "site")


def _run_zensical(sources: Path) -> None:
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    paths = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }  # mkdocstrings imports docs_site.griffe_extension
    done = subprocess.run(command, cwd=sources, env=paths, capture_output=True, text=True, check=False)
    if done.returncode:
        told, _, _ = (done.stdout + done.stderr).partition("Traceback")
        raise SiteError(_COLOR.sub("", told if "issue" in told else done.stderr))


def main() -> int:
    """Build, and say where it is and how to look at it."""
    try:
        site = build(PROJECT, Path(sys.argv[1]).resolve())
    except SiteError as error:
        print(f"docs: the site was not built\n{error}", file=sys.stderr)
        return 1
    pages, size = sum(1 for _ in site.rglob("*.html")), sum(file.stat().st_size for file in site.rglob("*.*"))
    print(f"docs: {site} has {pages} pages, {size / 1e6:.1f} MB; to look at it, open index.html, or with its search:")
    print(f"  {Path(sys.executable)} -m http.server --bind 127.0.0.1 --directory {site} 8000   # http://127.0.0.1:8000")
    return 0


if __name__ == "__main__":
    sys.exit(main())
