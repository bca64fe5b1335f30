"""From the repository to the sources of the site: the same pages, and links that lead somewhere in the site, too.

Pages link to each other and to files of the repository as a Git host understands it. The site has no files of the
repository, so a link to one leads to a page that shows it, and CONTRIBUTING and CHANGELOG are pages of the site.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

# Files of the repository that stand elsewhere in the site: from where they are to where they go.
MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "development/contributing.md",
    "CHANGELOG.md": "reference/changelog.md",
}
PORTS = "core/flink_autoscaler/core/ports/"
_COPIED = (".md", ".svg", ".png", ".css")
_SHOWN_AS = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".service": "ini", ".sh": "sh"}
_FENCE = re.compile(r"^\s*(```|~~~)")
_LINK = re.compile(r"(\]\()(?!https?://|mailto:|#)([^)#\s]+)(#[^)\s]*)?(\))")


class SiteError(Exception):
    """The site cannot be built; the message names the page and the link, one per line."""


@dataclass
class Stage:
    """The sources of the site while they are put together.

    Attributes:
        project: The repository.
        target: The folder of the pages; made anew.
        shown: Files of the repository that pages link to, relative to it, by their page in the site.
    """

    project: Path
    target: Path
    shown: dict[str, str] = field(default_factory=dict)
    _broken: list[str] = field(default_factory=list)

    def fill(self) -> None:
        """Copy every page and picture, and show the files that pages link to.

        Raises:
            SiteError: Pages link to files that the repository does not have.
        """
        shutil.rmtree(self.target, ignore_errors=True)
        for source in sorted((self.project / "docs").rglob("*")):
            if source.suffix in _COPIED:
                self._take(source, source.relative_to(self.project / "docs").as_posix())
        for name, page in MOVED.items():
            if page != "index.md":
                self._take(self.project / name, page)
        for name, page in self.shown.items():
            self.write(page, _listing(self.project / name, name))
        if self._broken:
            raise SiteError("\n".join(self._broken))

    def write(self, page: str, text: str) -> None:
        """Write one page, named relative to the folder of the pages."""
        file = self.target / page
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def _take(self, source: Path, page: str) -> None:
        if source.suffix == ".md":
            name = source.relative_to(self.project).as_posix()
            self.write(
                page, map_links(source.read_text(encoding="utf-8"), lambda link: self._link_target(name, page, link))
            )
        else:
            self.write(page, "")
            shutil.copyfile(source, self.target / page)

    def _link_target(self, name: str, page: str, link: str) -> str:
        """Return where a link of a page leads in the site, relative to the page."""
        found = Path(os.path.normpath(self.project / PurePosixPath(name).parent / link))
        if not found.exists() or not found.is_relative_to(self.project):
            self._broken.append(f"{name}: there is no {link}")
            return link
        return os.path.relpath(self._page_of(found), PurePosixPath(page).parent)

    def _page_of(self, found: Path) -> str:
        name = found.relative_to(self.project).as_posix()
        if found.is_dir() and (found / "README.md").exists():
            name += "/README.md"
        if name in MOVED:
            return MOVED[name]
        if name.startswith("docs/") and PurePosixPath(name).suffix in _COPIED:
            return name.removeprefix("docs/")
        if name.startswith(PORTS):
            return f"reference/api/{PurePosixPath(name).stem}.md"
        return self.shown.setdefault(name, f"files/{name}.md")


def map_links(text: str, led: Callable[[str], str]) -> str:
    """Return a page whose relative links lead elsewhere.

    Args:
        text: Markdown; what stands in fences stays as it is.
        led: From the target of a link, without its anchor, to the new target.
    """
    lines, is_code = [], False
    for line in text.splitlines(keepends=True):
        is_code ^= bool(_FENCE.match(line))
        lines.append(line if is_code else _LINK.sub(lambda found: _replace_link(found, led), line))
    return "".join(lines)


def _replace_link(found: re.Match[str], led: Callable[[str], str]) -> str:
    before, link, anchor, after = found.groups("")
    return f"{before}{led(link)}{anchor}{after}"


def _listing(file: Path, name: str) -> str:
    """Return a page that shows a file of the repository, or what a folder of it holds."""
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n"
    if file.is_dir():
        return head + "".join(f"- `{each.name}`\n" for each in sorted(file.iterdir()) if each.name[0] not in "._")
    return f"{head}~~~~ {_SHOWN_AS.get(file.suffix, 'text')}\n{file.read_text(encoding='utf-8')}\n~~~~\n"
