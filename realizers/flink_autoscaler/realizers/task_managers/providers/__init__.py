"""Providers that start and stop TaskManagers: commands, an HTTP service, Docker Compose.

``flink_autoscaler.realizers.testing.provider_contract`` has the tests that every implementation has to pass; it needs
pytest and is therefore not imported here.
"""

from flink_autoscaler.realizers.task_managers.providers.command import CommandProvider, CommandSpec, compose_provider
from flink_autoscaler.realizers.task_managers.providers.http import HttpProvider
from flink_autoscaler.realizers.task_managers.providers.limits import ProviderLimits

__all__ = [
    "CommandProvider",
    "CommandSpec",
    "HttpProvider",
    "ProviderLimits",
    "compose_provider",
]
