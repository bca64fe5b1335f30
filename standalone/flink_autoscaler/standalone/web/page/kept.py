"""Views that are the same for everybody until the next pass: rendered once, however many look at them."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

MOST: Final = 32
"""Views that are kept; the one that was asked for longest ago goes first."""


class KeptViews:
    """Keeps rendered views, and makes each once also when many ask at the same time. Thread-safe.

    Attributes:
        form_token: Stands in a kept view where each visitor gets a form token of its own; nobody can guess it, so that
            nothing that is shown can contain it.
        now_ms: Stands there for the instant of the request.
    """

    def __init__(self) -> None:
        self.form_token = f"form-{secrets.token_hex(16)}"
        self.now_ms = f"now-{secrets.token_hex(16)}"
        self._lock = threading.Lock()
        self._views: OrderedDict[Hashable, str] = OrderedDict()

    def view(self, key: Hashable, make: Callable[[], str], *, form_token: str, now_ms: int) -> str:
        """Return a view for one visitor.

        Args:
            key: Everything that it depends on.
            make: Renders it, with the attributes in place of token and instant.
            form_token: Of the visitor.
            now_ms: Epoch milliseconds.
        """
        with self._lock:
            text = self._views.pop(key, None)
            self._views[key] = text = make() if text is None else text
            if len(self._views) > MOST:
                self._views.popitem(last=False)
        return text.replace(self.form_token, form_token).replace(self.now_ms, str(now_ms))
