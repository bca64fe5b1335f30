"""Apprise, the library that knows the services for notifications: silent, and asked which service a URL is of."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Final

from flink_autoscaler.core.errors import ConfigError

EXTRA: Final = "pip install 'flink-autoscaler[notifications]'"


class AppriseLog(logging.Handler):
    """Collects what Apprise logs, for the call in which it does.

    By a context variable: where a service has a deadline, Apprise calls it in another thread, with the same context.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._own: ContextVar[list[str] | None] = ContextVar("said", default=None)

    @contextmanager
    def capture(self) -> Iterator[list[str]]:
        """Give the list to which the lines of this call are added meanwhile."""
        said: list[str] = []
        binding = self._own.set(said)
        try:
            yield said
        finally:
            self._own.reset(binding)

    def emit(self, record: logging.LogRecord) -> None:
        """Add a line to the list of the call."""
        said = self._own.get()
        if said is not None:
            said.append(record.getMessage())


APPRISE_LOG: Final = AppriseLog()


@cache
def load_apprise() -> Any:
    """Return the library, silent: what it logs may hold URLs, and is told without them.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import apprise as library  # noqa: PLC0415 - who has no such target need not have it
    except ModuleNotFoundError as error:
        raise ConfigError(f"targets of type apprise need a library that is not installed: {EXTRA}") from error
    logger = logging.getLogger("apprise")
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    logger.addHandler(APPRISE_LOG)
    return library


def apprise_service(url: str) -> Any:
    """Return what sends to a URL; None where Apprise knows no such service. May raise :class:`ConfigError`."""
    library = load_apprise()
    asset = library.AppriseAsset(
        app_id="flink-autoscaler", app_desc="Keeps Apache Flink jobs at the right parallelism", async_mode=False
    )
    with APPRISE_LOG.capture():
        return library.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
