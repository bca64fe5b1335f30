"""Cookies of one base URL, few and short."""

from __future__ import annotations

from http.cookiejar import Cookie
from typing import Final

import httpx

MOST_COOKIES: Final = 20
LONGEST_COOKIE: Final = 4096
"""Characters of name and value; Hadoop's signed ``hadoop.auth`` has about 200, gateways' tokens up to 4,000."""


class KeptCookies:
    """Cookies that a server has set, such as ``hadoop.auth``, so that it need not be convinced with every request."""

    def __init__(self) -> None:
        self._cookies = httpx.Cookies()
        self._are_any = False

    def take(self, response: httpx.Response) -> None:
        """Keep what an answer sets and forget what it takes back."""
        if "set-cookie" not in response.headers:
            return
        self._cookies.extract_cookies(response)
        for surplus in self._surplus():
            self._cookies.delete(surplus.name, surplus.domain, surplus.path)
        self._are_any = len(self._cookies.jar) > 0

    def add_to(self, request: httpx.Request) -> None:
        """Put the cookies that are meant for a request into its header."""
        if self._are_any:
            self._cookies.set_cookie_header(request)

    def _surplus(self) -> list[Cookie]:
        cookies = list(self._cookies.jar)
        short = [cookie for cookie in cookies if len(cookie.name) + len(cookie.value or "") <= LONGEST_COOKIE]
        kept = short[:MOST_COOKIES]
        return [cookie for cookie in cookies if cookie not in kept]
