"""The built-in providers of TaskManagers, made from settings: entry points of ``task_manager_providers``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flink_autoscaler.clients import EventLoopThread
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.realizers.taskmanagers.providers import (
    CommandProvider,
    CommandSpec,
    ComposeSpec,
    HttpProvider,
    ProcessProvider,
    ProcessSpec,
    ProviderLimits,
    compose_provider,
)
from flink_autoscaler.realizers.taskmanagers.providers.command import COUNT
from flink_autoscaler.realizers.taskmanagers.providers.compose import DOCKER_COMPOSE
from flink_autoscaler.realizers.taskmanagers.providers.process import ID
from flink_autoscaler.standalone.fetchers.access import Access
from flink_autoscaler.standalone.settings.schema.clusters import ProviderSettings


def process(cluster: str, provider: ProviderSettings) -> ProcessProvider:
    """Make a provider that runs TaskManagers on this machine.

    Raises:
        ConfigError: A setting is missing, or the command does not give the id on.
    """
    if not any(ID in argument for argument in provider.command):
        keys = _keys(cluster)
        raise ConfigError(
            f"{keys}command: expected a program and arguments, one of them with {ID}, "
            f"such as '/opt/flink/bin/taskmanager.sh;start-foreground;-Dtaskmanager.resource-id={ID}'"
        )
    return ProcessProvider(
        ProcessSpec(
            provider.command,
            Path(_required(cluster, "directory", provider.directory)).absolute() / cluster,
            prefix=cluster,
            limits=_limits(cluster, provider),
            stop_timeout=provider.stop_timeout,
            environment=provider.environment,
        )
    )


def command(cluster: str, provider: ProviderSettings) -> CommandProvider:
    """Make a provider that runs commands with a count.

    Raises:
        ConfigError: The command is missing, or does not take the count.
    """
    if not any(COUNT in argument for argument in provider.command):
        raise ConfigError(f"{_keys(cluster)}command: expected a program and arguments, one of them with {COUNT}")
    return CommandProvider(
        CommandSpec(
            provider.command,
            describe=provider.describe_command,
            timeout=provider.command_timeout,
            describe_timeout=provider.timeout,
            limits=_limits(cluster, provider),
        )
    )


def http(
    cluster: str, provider: ProviderSettings, loop: EventLoopThread, may_write: Callable[[float], bool]
) -> HttpProvider:
    """Make a provider that asks an HTTP service.

    Raises:
        ConfigError: The URL is missing.
    """
    url = _required(cluster, "url", next(iter(provider.url), None))
    access, plain = Access(provider, _keys(cluster)), Endpoint(url, timeout=provider.timeout)
    return HttpProvider(lambda: access.secured(plain), loop, limits=_limits(cluster, provider), may_write=may_write)


def compose(cluster: str, provider: ProviderSettings) -> CommandProvider:
    """Make a provider that scales a service of Docker Compose.

    Raises:
        ConfigError: The service is missing.
    """
    return compose_provider(
        ComposeSpec(
            _required(cluster, "service", provider.service),
            provider.command or DOCKER_COMPOSE,
            timeout=provider.command_timeout,
            limits=_limits(cluster, provider),
        )
    )


def _limits(cluster: str, provider: ProviderSettings) -> ProviderLimits:
    least, most = provider.min_taskmanagers, provider.max_taskmanagers
    if least > most:
        raise ConfigError(f"{_keys(cluster)}min-taskmanagers is {least}, more than max-taskmanagers, which is {most}")
    return ProviderLimits(least, most, provider.slots_per_taskmanager, provider.typical_startup)


def _required(cluster: str, name: str, value: str | None) -> str:
    if value is None:
        raise ConfigError(f"{_keys(cluster)}{name} is not set")
    return value


def _keys(cluster: str) -> str:
    return f"cluster '{cluster}': provider."
