from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from downloads.fetching import FetchError, fetch
from downloads.index import IndexFile, files_of, newest_archive
from downloads.pip_settings import PipSettings

CONTENT = bytes(range(256)) * 20_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SETTINGS = PipSettings({"timeout": "5"})


class Mirror(ThreadingHTTPServer):
    """Sends one file, and breaks the first connections after some bytes; notes the ranges asked for."""

    def __init__(self, breaks: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), Sending)
        self.breaks = breaks
        self.ranges: list[str] = []
        self.page = b"<a href='../../big-1.0.tar.gz#sha256=1'>x</a><a data-yanked href='big-2.0.tar.gz'>x</a>"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Sending(BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        if self.path.startswith("/simple/"):
            self._send(200, self.server.page, len(self.server.page))
            return
        asked = self.headers.get("Range", "")
        self.server.ranges.append(asked)
        rest = CONTENT[int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0 :]
        self.server.breaks -= 1
        sent = rest[: len(CONTENT) // 3] if self.server.breaks >= 0 else rest
        self._send(206 if asked else 200, sent, len(rest))

    def _send(self, status: int, body: bytes, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  -- the name of the base class
        """Say nothing."""


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with Mirror() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def a_file(mirror: Mirror, sha256: str = SHA256) -> IndexFile:
    return IndexFile("big.tar.gz", f"{mirror.url}/big.tar.gz", sha256)


def ignore(here: int, whole: int) -> None:
    """Nobody waits."""


def test_half_a_download_of_an_earlier_try_is_continued(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "big.tar.gz.part").write_bytes(CONTENT[:1000])

    path = fetch(a_file(mirror), tmp_path, SETTINGS, ignore)

    assert path.read_bytes() == CONTENT
    assert mirror.ranges == ["bytes=1000-"]


def test_a_connection_that_breaks_is_taken_up_again_behind_what_came(mirror: Mirror, tmp_path: Path) -> None:
    mirror.breaks = 2

    path = fetch(a_file(mirror), tmp_path, SETTINGS, ignore)

    assert path.read_bytes() == CONTENT
    assert len(mirror.ranges) == 3


def test_a_download_that_is_stopped_leaves_what_came_for_the_next_try(mirror: Mirror, tmp_path: Path) -> None:
    def stop(here: int, whole: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(a_file(mirror), tmp_path, SETTINGS, stop)

    came = (tmp_path / "big.tar.gz.part").stat().st_size
    assert came > 0
    assert fetch(a_file(mirror), tmp_path, SETTINGS, ignore).read_bytes() == CONTENT
    assert mirror.ranges[-1] == f"bytes={came}-"


def test_a_file_with_another_checksum_is_thrown_away(mirror: Mirror, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="SHA-256"):
        fetch(a_file(mirror, sha256="0" * 64), tmp_path, SETTINGS, ignore)

    assert list(tmp_path.iterdir()) == []


def test_files_are_read_from_a_page_of_links_without_those_withdrawn(mirror: Mirror) -> None:
    files = files_of("big", PipSettings({"index-url": f"{mirror.url}/simple"}))

    assert files == [IndexFile("big-1.0.tar.gz", f"{mirror.url}/big-1.0.tar.gz", "1")]


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        pytest.param(["p-4.0.0.tar.gz", "p-4.10.0.tar.gz", "p-4.9.1.tar.gz"], "p-4.10.0.tar.gz", id="by number"),
        pytest.param(["p-4.0.0.tar.gz", "p-4.1.0.dev1.tar.gz", "p-5.0.0.tar.gz"], "p-4.0.0.tar.gz", id="in range"),
        pytest.param(["p-4.0.0.tar.gz", "p-4.0.0-py2.py3-none-any.whl"], None, id="a wheel is there"),
        pytest.param(["p-client-4.0.0.tar.gz"], None, id="another project"),
    ],
)
def test_newest_archive_is_the_release_that_pip_would_build(names: list[str], newest: str | None) -> None:
    found = newest_archive([IndexFile(name, "", "") for name in names], "p", (4, 0), (5,))

    assert (found.name if found else None) == newest
