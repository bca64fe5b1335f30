"""Puts page and API together, as the settings say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.schema.settings import HttpSettings
from flink_autoscaler.standalone.settings.secrets import read_secret
from flink_autoscaler.standalone.web.api import PREFIX, AutoscalerApi
from flink_autoscaler.standalone.web.app_state import AppState
from flink_autoscaler.standalone.web.authorization import AccessRules
from flink_autoscaler.standalone.web.middleware import AuthorizationMiddleware, RequestLimits
from flink_autoscaler.standalone.web.page.views import Views
from flink_autoscaler.standalone.web.query_service import QueryService
from flink_autoscaler.standalone.web.sse import FleetEvents

_KEYS = "autoscaler.http."


def build_access_rules(settings: HttpSettings) -> AccessRules:
    """Return who may do what.

    Raises:
        ConfigError: A token is configured and not there.
    """
    return AccessRules(
        viewer_token=read_secret(
            _KEYS,
            "viewer-token",
            variable=settings.viewer_token_env_variable,
            file=settings.viewer_token_file,
        ),
        operator_token=read_secret(
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


class CurrentAccessRules:
    """Who may do what, as it was configured last; called, it tells.

    Raises:
        ConfigError: A token is configured and not there.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self._now = build_access_rules(settings)

    def __call__(self) -> AccessRules:
        """Return what is in force. From any thread."""
        return self._now

    def update(self, settings: HttpSettings) -> None:
        """Put other settings in force; pages that are open stay valid.

        Raises:
            ConfigError: A token is configured and not there; nothing has changed.
        """
        self._now = replace(build_access_rules(settings), secret=self._now.secret)


def build_pages(site: AppState, access: Callable[[], AccessRules]) -> tuple[Sequence[BaseRoute], Sequence[Middleware]]:
    """Make the routes of page and API, and what every request goes through.

    Args:
        site: What they show.
        access: Who may do what now; asked for every request.
    """
    answers = QueryService(site)
    api = Route(PREFIX + "/{rest:path}", AutoscalerApi(answers, access, FleetEvents(site.fleet)))
    routes = [api, *Views(answers, access).routes()]
    return routes, [Middleware(RequestLimits), Middleware(AuthorizationMiddleware, access=access)]


def tls_files(settings: HttpSettings) -> tuple[str, str] | None:
    """Return certificate and key; None where the endpoint speaks plain HTTP.

    Raises:
        ConfigError: Only one of them is there.
    """
    given = (settings.tls_cert_file, settings.tls_key_file)
    if None in given and given != (None, None):
        raise ConfigError(f"{_KEYS}tls-cert-file and {_KEYS}tls-key-file belong together")
    return None if given[0] is None or given[1] is None else (given[0], given[1])
