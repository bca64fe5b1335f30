"""Checks of a built site: no link leads nowhere, and a browser loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADING = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}
# Links that name another page, without loading it.
_NAMING = ("canonical", "alternate", "prev", "next")


@dataclass
class Page(HTMLParser):
    """One page of HTML: what it links to, what it loads, and where in it a link may lead.

    Attributes:
        links: Targets of ``href`` of anchors.
        loaded: Addresses that a browser fetches to show the page.
        anchors: Every ``id`` and ``name``.
    """

    file: Path
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Read the file."""
        super().__init__()
        self.feed(self.file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag links to, loads or names."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if values.get("rel") not in _NAMING:
            self.loaded += [value for name, value in values.items() if (tag, name) in _LOADING]


@dataclass
class DocsSite:
    """A built site.

    Attributes:
        root: Its folder.
    """

    root: Path

    @cached_property
    def pages(self) -> dict[Path, Page]:
        """Every page by its file."""
        return {file: Page(file) for file in sorted(self.root.rglob("*.html"))}

    def faults(self) -> Iterator[str]:
        """Yield one line for every link that leads nowhere and everything that comes from another host."""
        for page in self.pages.values():
            name = page.file.relative_to(self.root)
            yield from (f"{name}: leads nowhere: {link}" for link in page.links if not self._is_reachable(page, link))
            yield from (f"{name}: is missing: {each}" for each in page.loaded if not self._is_reachable(page, each))
            yield from (f"{name}: comes from elsewhere: {each}" for each in page.loaded if urlsplit(each).netloc)

    def _is_reachable(self, page: Page, link: str) -> bool:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            return True
        path = unquote(parts.path)
        # The page for what does not exist is shown at any address, so its links start at the root.
        base = self.root if path.startswith("/") else page.file.parent
        file = (base / path.lstrip("/")).resolve() if path else page.file
        file = file / "index.html" if file.is_dir() else file
        return file.exists() and self._has(file, unquote(parts.fragment))

    def _has(self, file: Path, anchor: str) -> bool:
        return not anchor or file.suffix != ".html" or anchor in self.pages[file].anchors
