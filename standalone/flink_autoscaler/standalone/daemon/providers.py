"""Providers of the clusters' TaskManagers: the one that the settings name, built when it is first needed.

The functions are the entry points of the built-in ones, in the group ``task_manager_providers``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.error_boundary import ErrorBoundary
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.task_managers import SupplyRules, TaskManagerProvider, TaskManagerSupply
from flink_autoscaler.realizers.task_managers.providers import (
    CommandProvider,
    CommandSpec,
    HttpProvider,
    ProviderLimits,
    compose_provider,
)
from flink_autoscaler.realizers.task_managers.providers.command import COUNT, DOCKER_COMPOSE
from flink_autoscaler.standalone.settings.credentials import Credentials
from flink_autoscaler.standalone.settings.plugins import PluginGroup, make_plugin
from flink_autoscaler.standalone.settings.schema.clusters import ProviderSettings

log = structlog.get_logger(__name__)

NONE: Final = "none"
"""The provider of a cluster whose TaskManagers nobody changes."""


class TaskManagerSupplyRegistry:
    """Gives the TaskManager supply of a cluster by the cluster's name. Usable from several threads.

    Args:
        loop: Runs the requests of providers.
        may_write: Asked immediately before a provider's request that changes something.
    """

    def __init__(self, loop: EventLoopThread, *, may_write: Callable[[float], bool] = lambda _: True) -> None:
        self._loop = loop
        self._may_write = may_write
        self._settings: dict[str, ProviderSettings] = {}
        self._built: dict[str, TaskManagerSupply] = {}
        self._lock = threading.Lock()

    def __call__(self, cluster: str) -> TaskManagerSupply | None:
        """Return the supply of a cluster; None where nobody changes its TaskManagers.

        Raises:
            ConfigError: The provider cannot be built as it is configured.
        """
        with self._lock:
            settings = self._settings.get(cluster)
            if settings is None or settings.type == NONE:
                return None
            if cluster not in self._built:
                self._built[cluster] = self._supply(cluster, settings)
            return self._built[cluster]

    def configure(self, cluster: str, settings: ProviderSettings) -> None:
        """Take the provider of a cluster from now on; one that stays as it is configured stays open."""
        with self._lock:
            before = self._settings.get(cluster)
            self._settings[cluster] = settings
            replaced = self._built.pop(cluster, None) if before != settings else None
        if replaced is not None:
            _close(replaced.provider)

    def close(self) -> None:
        """Close all providers; their TaskManagers stay. May be called more than once."""
        with self._lock:
            self._settings.clear()
            closing = [*self._built.values()]
            self._built.clear()
        for supply in closing:
            _close(supply.provider)

    def _supply(self, cluster: str, settings: ProviderSettings) -> TaskManagerSupply:
        offered = {
            "cluster": cluster,
            "provider": settings,
            "loop": self._loop,
            "may_write": self._may_write,
            "parameters": settings.parameters,
        }
        group = PluginGroup.TASK_MANAGER_PROVIDERS
        return TaskManagerSupply(make_plugin(group, settings.type, offered, cluster=cluster), supply_rules(settings))


def supply_rules(settings: ProviderSettings) -> SupplyRules:
    """Return the rules that the settings of a provider make."""
    return SupplyRules(
        spare=settings.headroom_taskmanagers,
        others=settings.other_taskmanagers,
        ready_timeout=settings.ready_timeout,
        settle=settings.slot_warmup,
        checkpoints=settings.checkpoint_max_intervals,
        idle=settings.idle_timeout,
    )


def _close(provider: TaskManagerProvider) -> None:
    with ErrorBoundary() as boundary:  # it may be somebody else's
        provider.close()
    if boundary.error is not None:
        log.warning("close_failed", part="task_manager_provider", error=str(boundary.error))


def make_command_provider(cluster: str, provider: ProviderSettings) -> CommandProvider:
    """Make a provider that runs commands with a count. May raise :class:`ConfigError`."""
    if not any(COUNT in argument for argument in provider.command):
        raise ConfigError(f"{_key_prefix(cluster)}command: expected a program and arguments, one of them with {COUNT}")
    return CommandProvider(
        CommandSpec(
            provider.command,
            describe=provider.describe_command,
            timeout=provider.command_timeout,
            describe_timeout=provider.timeout,
            limits=_provider_limits(cluster, provider),
        )
    )


def make_http_provider(
    cluster: str, provider: ProviderSettings, loop: EventLoopThread, may_write: Callable[[float], bool]
) -> HttpProvider:
    """Make a provider that asks an HTTP service. May raise :class:`ConfigError`."""
    url = _require_option(cluster, "url", next(iter(provider.url), None))
    access, plain = Credentials(provider, _key_prefix(cluster)), Endpoint(url, timeout=provider.timeout)
    return HttpProvider(
        lambda: access.with_credentials(plain), loop, limits=_provider_limits(cluster, provider), may_write=may_write
    )


def make_compose_provider(cluster: str, provider: ProviderSettings) -> CommandProvider:
    """Make a provider that scales a service of Docker Compose. May raise :class:`ConfigError`."""
    return compose_provider(
        _require_option(cluster, "service", provider.service),
        provider.command or DOCKER_COMPOSE,
        timeout=provider.command_timeout,
        limits=_provider_limits(cluster, provider),
    )


def _provider_limits(cluster: str, provider: ProviderSettings) -> ProviderLimits:
    least, most = provider.min_taskmanagers, provider.max_taskmanagers
    if least > most:
        raise ConfigError(
            f"{_key_prefix(cluster)}min-taskmanagers is {least}, more than max-taskmanagers, which is {most}"
        )
    return ProviderLimits(least, most, provider.slots_per_taskmanager, provider.typical_startup)


def _require_option(cluster: str, name: str, value: str | None) -> str:
    if value is None:
        raise ConfigError(f"{_key_prefix(cluster)}{name} is not set")
    return value


def _key_prefix(cluster: str) -> str:
    return f"cluster '{cluster}': provider."
