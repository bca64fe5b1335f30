"""The options of whoever starts and stops the TaskManagers of a cluster: ``autoscaler.clusters.<n>.provider``."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from flink_autoscaler.core.model import syntax
from flink_autoscaler.realizers.taskmanagers.providers.process import ENVIRONMENT
from flink_autoscaler.standalone.settings.schema.access_settings import AccessSettings
from flink_autoscaler.standalone.settings.schema.fields import (
    BaseUrls,
    Count,
    OptionalText,
    PluginName,
    Seconds,
    Syntax,
    TextMap,
    Texts,
)

OptionalCount = Annotated[
    int | None,
    BeforeValidator(lambda value: syntax.parse_int(value) if isinstance(value, str) else value),
    Syntax("a whole number"),
]


class ProviderSettings(AccessSettings):
    """Who starts and stops the TaskManagers of a standalone cluster; access, headers and TLS are those of http."""

    type: PluginName = Field(
        default="none",
        description="none; process: processes on the daemon's machine; command: commands of yours; http: a service of "
        "yours; compose: a service of Docker Compose; or the name of another plug-in.",
    )
    min_taskmanagers: Count = Field(default=0, ge=0, description="Never fewer TaskManagers than this.")
    max_taskmanagers: Count = Field(default=10, ge=0, description="Never more TaskManagers than this.")
    spare_taskmanagers: Count = Field(default=0, ge=0, description="TaskManagers beyond what is needed.")
    other_taskmanagers: Count = Field(
        default=0,
        ge=0,
        description="TaskManagers of the cluster that somebody else looks after; where the provider knows the ids of "
        "its own (process), they are told apart without this.",
    )
    slots_per_taskmanager: OptionalCount = Field(
        default=None, ge=1, description="Slots of one TaskManager; unset takes what the cluster says."
    )
    typical_startup: Seconds = Field(
        default=30.0, ge=0, description="Time that it takes until a new TaskManager offers its slots."
    )
    ready_timeout: Seconds = Field(
        default=600.0,
        gt=0,
        description="Time after which to go on with the TaskManagers that have come, and to stop waiting for the "
        "others.",
    )
    settle: Seconds = Field(default=10.0, ge=0, description="Time for which new slots must have been there to count.")
    checkpoint_patience: Count = Field(
        default=3,
        ge=0,
        description="Checkpoint intervals for which stopping TaskManagers of a reactive cluster waits for a completed "
        "checkpoint.",
    )
    idle_time: Seconds = Field(
        default=60.0,
        ge=0,
        description="Time that a TaskManager must have been without work before it is stopped, outside of reactive "
        "mode.",
    )
    command: Texts = Field(
        default=(),
        description="Program and arguments, as a list, no shell. process: runs one TaskManager in the foreground, {id} "
        "stands for its id. command: makes a count come true, {n} stands for it, an argument {victims} for the ids "
        "of those to stop. compose: Docker Compose with its own options.",
    )
    describe_command: Texts = Field(
        default=(),
        description="command: program and arguments that write how many TaskManagers there are, as a number or JSON.",
    )
    command_timeout: Seconds = Field(
        default=300.0, gt=0, description="command, compose: time that the command may take."
    )
    timeout: Seconds = Field(
        default=10.0, gt=0, description="Time that one request of http may take, or the describing command."
    )
    directory: OptionalText = Field(
        default=None,
        description="process: where the list of processes and their outputs are kept; has to outlive the daemon.",
    )
    stop_timeout: Seconds = Field(
        default=30.0, ge=0, description="process: time between SIGTERM and SIGKILL when a TaskManager is stopped."
    )
    environment: Texts = Field(
        default=ENVIRONMENT,
        description="process: patterns for names of the daemon's environment variables that TaskManagers get, too.",
    )
    url: BaseUrls = Field(default=(), description="http: the service, which answers GET and PUT there.")
    service: OptionalText = Field(default=None, description="compose: name of the service that runs TaskManagers.")
    parameters: TextMap = Field(default_factory=dict, description="Settings of a provider that is a plug-in of others.")
