"""What a package index has of a project (PEP 503 and PEP 691)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin, urlsplit

from downloads.pip_settings import PipSettings
from downloads.web import get

_JSON = "application/vnd.pypi.simple.v1+json"
_RELEASE = re.compile(r"\d+(\.\d+)*$")  # neither a preview nor a candidate
_NEEDLESS = "py2.py3-none-any.whl"

Version = tuple[int, ...]


@dataclass(frozen=True)
class IndexFile:
    """One file of a project.

    Attributes:
        sha256: Of its content, in hexadecimal digits; empty when the index does not tell.
    """

    name: str
    url: str
    sha256: str


def files_of(project: str, settings: PipSettings) -> list[IndexFile]:
    """Return the files that the configured index offers, withdrawn ones left out.

    Raises:
        OSError: The index does not answer, or does not know the project.
        ValueError: It answers something else than a page of an index.
    """
    answer = get(f"{settings.index_url}/{project}/", settings, {"Accept": f"{_JSON}, text/html;q=0.1"})
    text = answer.read().decode()
    if _JSON in (answer.headers.get("Content-Type") or ""):
        return _from_json(text, answer.geturl())
    return _from_html(text, answer.geturl())


def _from_json(text: str, base: str) -> list[IndexFile]:
    found = [entry for entry in json.loads(text)["files"] if not entry.get("yanked")]
    return [
        IndexFile(entry["filename"], urljoin(base, entry["url"]), entry.get("hashes", {}).get("sha256", ""))
        for entry in found
    ]


def _from_html(text: str, base: str) -> list[IndexFile]:
    page = _Page()
    page.feed(text)
    files = []
    for link in page.links:
        url, fragment = urldefrag(urljoin(base, link))
        sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
        files.append(IndexFile(urlsplit(url).path.rpartition("/")[2], url, sha256))
    return files


class _Page(HTMLParser):
    """The links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the target of a link to a file that was not withdrawn."""
        attributes = dict(attrs)
        if tag == "a" and attributes.get("href") and "data-yanked" not in attributes:
            self.links.append(str(attributes["href"]))


def newest_archive(files: list[IndexFile], project: str, at_least: Version, below: Version) -> IndexFile | None:
    """Return the source archive of the newest release in a range; None where there is a wheel, or no archive."""
    archives = {version: file for file in files if (version := _version(file.name, project, ".tar.gz")) is not None}
    fitting = [version for version in archives if at_least <= version < below]
    if not fitting:
        return None
    newest = archives[max(fitting)]
    wheel = f"{newest.name.removesuffix('.tar.gz')}-{_NEEDLESS}"
    return None if any(file.name == wheel for file in files) else newest


def _version(name: str, project: str, suffix: str) -> Version | None:
    text = name.removeprefix(f"{project}-").removesuffix(suffix)
    if name != f"{project}-{text}{suffix}" or not _RELEASE.match(text):
        return None
    return tuple(int(part) for part in text.split("."))
