"""People who have the page open: each follows the news in a thread of its own."""

from __future__ import annotations

import threading
import urllib.request
from typing import Self

_PAUSE = 1.0


class Viewers:
    """So many browsers, from start to end; a context manager.

    A stream of news ends after a while; then the page is read anew, as a browser does.
    """

    def __init__(self, url: str, count: int) -> None:
        self._url = url
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._follow, daemon=True) for _ in range(count)]
        self.pages = 0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()

    def _follow(self) -> None:
        while not self._stopped.is_set():
            try:
                self._look()
            except OSError:
                self._stopped.wait(_PAUSE)

    def _look(self) -> None:
        with self._opener.open(self._url + "/", timeout=30) as page:
            page.read()
        self.pages += 1
        with self._opener.open(self._url + "/api/v1/news?since=0", timeout=60) as news:
            for _ in news:
                if self._stopped.is_set():
                    return
