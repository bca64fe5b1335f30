"""Who gives each cluster its TaskManagers: providers, built when they are first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from flink_autoscaler.clients import EventLoopThread
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.ports.task_managers import SupplyRules, TaskManagerProvider, TaskManagerSupply
from flink_autoscaler.standalone.settings.schema.clusters import ProviderSettings

NONE = "none"

Build = Callable[[str, Mapping[str, object]], Any]
"""Builds the provider plug-in with a name, given values that it may take by parameter name."""

log = structlog.get_logger(__name__)


class Supplies:
    """Gives the TaskManager supply of a cluster by the cluster's name. Usable from several threads.

    Args:
        build: Builds a provider plug-in; may raise ConfigError.
        loop: Runs the requests of providers.
        may_write: Asked immediately before a provider's request that changes something.
    """

    def __init__(
        self, build: Build, loop: EventLoopThread, *, may_write: Callable[[float], bool] = lambda _: True
    ) -> None:
        self._build = build
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
        return TaskManagerSupply(self._build(settings.type, offered), rules_of(settings))


def rules_of(settings: ProviderSettings) -> SupplyRules:
    """Return the rules that the settings of a provider make."""
    return SupplyRules(
        spare=settings.spare_taskmanagers,
        others=settings.other_taskmanagers,
        ready_timeout=settings.ready_timeout,
        settle=settings.settle,
        checkpoints=settings.checkpoint_patience,
        idle=settings.idle_time,
    )


def _close(provider: TaskManagerProvider) -> None:
    try:
        provider.close()
    except AutoscalerError as error:
        log.warning("close_failed", part="task_manager_provider", error=str(error))
