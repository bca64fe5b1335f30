"""TaskManagers as containers of a Docker Compose service."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from flink_autoscaler.core.ports.task_managers import ProviderInfo
from flink_autoscaler.realizers.taskmanagers.providers.command import COUNT, CommandProvider, CommandSpec
from flink_autoscaler.realizers.taskmanagers.providers.limits import ProviderLimits

DOCKER_COMPOSE = ("docker", "compose")


@dataclass(frozen=True)
class ComposeSpec:
    """Which service is scaled.

    Attributes:
        service: Name of the service that runs TaskManagers.
        base: Docker Compose with its own options, such as ``--file`` and ``--project-name``.
        timeout: Seconds that scaling may take, pulling images included.
        limits: How many containers there may be.
    """

    service: str
    base: tuple[str, ...] = DOCKER_COMPOSE
    timeout: float = 300.0
    limits: ProviderLimits = field(default_factory=ProviderLimits)


def compose_provider(spec: ComposeSpec) -> CommandProvider:
    """Make a provider that scales a service, and counts its containers.

    Docker Compose chooses which containers it removes; it sends them SIGTERM first.
    """
    scale = ("up", "--detach", "--no-recreate", "--scale", f"{spec.service}={COUNT}", spec.service)
    command = CommandSpec(
        command=(*spec.base, *scale),
        describe=(*spec.base, "ps", "--quiet", spec.service),
        timeout=spec.timeout,
        limits=spec.limits,
    )
    return CommandProvider(command, read=_container_count)


def _container_count(text: str, info: ProviderInfo) -> ProviderInfo:
    """Count the lines: one id of a running container each."""
    return replace(info, running=len(text.split()))
