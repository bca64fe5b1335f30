"""Who starts and stops TaskManagers: processes, commands, an HTTP service, Docker Compose.

``flink_autoscaler.realizers.testing.provider_contract`` has the tests that every implementation has to pass; it needs
pytest and is therefore not imported here. Names are loaded when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flink_autoscaler.realizers.taskmanagers.providers.command import CommandProvider as CommandProvider
    from flink_autoscaler.realizers.taskmanagers.providers.command import CommandSpec as CommandSpec
    from flink_autoscaler.realizers.taskmanagers.providers.command import compose_provider as compose_provider
    from flink_autoscaler.realizers.taskmanagers.providers.http import HttpProvider as HttpProvider
    from flink_autoscaler.realizers.taskmanagers.providers.limits import ProviderLimits as ProviderLimits
    from flink_autoscaler.realizers.taskmanagers.providers.process import ProcessProvider as ProcessProvider
    from flink_autoscaler.realizers.taskmanagers.providers.process import ProcessSpec as ProcessSpec

_MODULES = {
    "CommandProvider": "command",
    "CommandSpec": "command",
    "HttpProvider": "http",
    "ProcessProvider": "process",
    "ProcessSpec": "process",
    "ProviderLimits": "limits",
    "compose_provider": "command",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
