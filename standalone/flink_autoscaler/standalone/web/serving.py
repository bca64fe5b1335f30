"""Puts page and API together, as the settings say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.schema.settings import HttpSettings
from flink_autoscaler.standalone.settings.secrets import from_either
from flink_autoscaler.standalone.web.answers import Answers
from flink_autoscaler.standalone.web.api import PREFIX, AutoscalerApi
from flink_autoscaler.standalone.web.guard import Bounds, Guard
from flink_autoscaler.standalone.web.news import News
from flink_autoscaler.standalone.web.page.views import Views
from flink_autoscaler.standalone.web.rights import Access
from flink_autoscaler.standalone.web.site import Site

_KEYS = "autoscaler.http."


def access_of(settings: HttpSettings) -> Access:
    """Return who may do what.

    Raises:
        ConfigError: A token is configured and not there.
    """
    return Access(
        viewer_token=from_either(
            _KEYS,
            "viewer-token",
            variable=settings.viewer_token_env_variable,
            file=settings.viewer_token_file,
        ),
        operator_token=from_either(
            _KEYS,
            "operator-token",
            variable=settings.operator_token_env_variable,
            file=settings.operator_token_file,
        ),
        hosts=frozenset(host.lower() for host in settings.allowed_hosts),
        user_header=None if settings.user_header is None else settings.user_header.lower(),
        proxies=frozenset(settings.trusted_proxies),
        operators=frozenset(settings.operators),
    )


class AccessInForce:
    """Who may do what, as it was configured last; called, it tells.

    Raises:
        ConfigError: A token is configured and not there.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self._now = access_of(settings)

    def __call__(self) -> Access:
        """Return what is in force. From any thread."""
        return self._now

    def follow(self, settings: HttpSettings) -> None:
        """Put other settings in force; pages that are open stay valid.

        Raises:
            ConfigError: A token is configured and not there; nothing has changed.
        """
        self._now = replace(access_of(settings), secret=self._now.secret)


def pages_of(site: Site, access: Callable[[], Access]) -> tuple[Sequence[BaseRoute], Sequence[Middleware]]:
    """Make the routes of page and API, and what every request goes through.

    Args:
        site: What they show.
        access: Who may do what now; asked for every request.
    """
    answers = Answers(site)
    api = Route(PREFIX + "/{rest:path}", AutoscalerApi(answers, access, News(site.fleet)))
    routes = [api, *Views(answers, access).routes()]
    return routes, [Middleware(Bounds), Middleware(Guard, access=access)]


def tls_files(settings: HttpSettings) -> tuple[str, str] | None:
    """Return certificate and key; None where the endpoint speaks plain HTTP.

    Raises:
        ConfigError: Only one of them is there.
    """
    given = (settings.tls_cert_file, settings.tls_key_file)
    if None in given and given != (None, None):
        raise ConfigError(f"{_KEYS}tls-cert-file and {_KEYS}tls-key-file belong together")
    return None if given[0] is None or given[1] is None else (given[0], given[1])
