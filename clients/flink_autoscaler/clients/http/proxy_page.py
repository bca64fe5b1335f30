"""Pages for people that arrive where JSON was expected: what they probably are and what to do."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final, NamedTuple

APPROVAL: Final = "proxyapproved=true"
"""Query parameter by which a visitor of YARN's web proxy confirms its warning (``ProxyUriUtils`` of Hadoop)."""

_LOOKED_AT: Final = 16_384
"""Bytes of a page that are looked at."""

_SHOWN: Final = 60
_WARNING: Final = "The following page may not be safe"
_OWNER: Final = re.compile(r"owned by (\S{1,64})")
_LOGIN: Final = re.compile(r"\b(log ?in|log ?on|sign ?in|single sign-on|authenticat\w+)\b", re.IGNORECASE)


class Page(NamedTuple):
    """What a person would see of a page.

    Attributes:
        title: May be empty.
        text: Without title, scripts and styles, on one line.
        asks_for_password: Whether there is a field for a password.
    """

    title: str
    text: str
    asks_for_password: bool


def is_page(content_type: str) -> bool:
    """Whether a content type announces a page for people."""
    return "html" in content_type.partition(";")[0].lower()


def is_warning(body: bytes) -> bool:
    """Whether a page is the one by which YARN's web proxy warns others than an application's owner.

    The proxy shows it, with status 200, instead of passing the request on.
    """
    return _WARNING in page_of(body).text


def page_of(body: bytes) -> Page:
    """Read the beginning of a page; may be anything."""
    reader = _Reader()
    reader.feed(body[:_LOOKED_AT].decode("utf-8", "replace"))
    return Page(_one_line(reader.title), _one_line(reader.text), reader.asks_for_password)


def explained_page(body: bytes) -> str:
    """Return what a page that came with status 200 probably is, and what to do about it."""
    page = page_of(body)
    both = f"{page.title} {page.text}"
    if _WARNING in both:
        return _warning(page)
    if "HTTPS must be used" in both and "STRICT" in both:
        return (
            "YARN's web proxy only leads to JobManagers with https (yarn.resourcemanager.application-https.policy is "
            "STRICT): set security.ssl.rest.enabled for the Flink application, or reach it with yarn.access: direct"
        )
    if page.title == "Apache Flink Web Dashboard":
        return "this is Flink's page for browsers, not its REST API; is there something wrong with the path of the URL?"
    if page.asks_for_password or _LOGIN.search(page.title):
        return f"this looks like a login page {_shown(page)}; set auth.kind, or a URL that leads past the login"
    return f"this is a page for people {_shown(page)}; is this a proxy's page or another program's port?"


def shortened(body: bytes) -> str:
    """Return what a page says in few words, such as that of an error; safe to print."""
    page = page_of(body)
    return repr(_cut(page.text or page.title, 2 * _SHOWN))


def _warning(page: Page) -> str:
    owner = _OWNER.search(page.text)
    whose = f" to {owner[1]!r}" if owner else " to somebody else"
    return (
        f"YARN's web proxy warns that the application belongs{whose}: let the daemon be that user (auth), reach the "
        "JobManager with yarn.access: direct, or confirm the warning with yarn.approve-proxy: true"
    )


def _shown(page: Page) -> str:
    title = f"titled {_cut(page.title)!r}" if page.title else "without title"
    return f"{title}: {_cut(page.text)!r}"


def _cut(text: str, length: int = _SHOWN) -> str:
    return text if len(text) <= length else f"{text[:length]}..."


def _one_line(parts: list[str]) -> str:
    text = " ".join("".join(parts).split())
    return "".join(character if character.isprintable() else "?" for character in text)


class _Reader(HTMLParser):
    """Collects title and visible text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.text: list[str] = []
        self.asks_for_password = False
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("title", "script", "style"):
            self._inside = tag
        elif tag == "input" and ("type", "password") in attrs:
            self.asks_for_password = True
        self.text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""
        self.text.append(" ")

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.title.append(data)
        elif not self._inside:
            self.text.append(data)
