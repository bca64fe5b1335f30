"""The options of notifications: which events are told where."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.standalone.settings.schema.clusters import AccessSettings
from flink_autoscaler.standalone.settings.schema.types import (
    ClusterName,
    OptionSection,
    Seconds,
    Syntax,
    Text,
    Texts,
    option,
    write_list,
)

_SEVERITIES: Final = {kind.value.lower(): kind for kind in EventType}


class TargetType(StrEnum):
    """How a target is told."""

    WEBHOOK = "webhook"
    APPRISE = "apprise"


def parse_severities(text: str) -> tuple[str, ...]:
    """Read a list of severities. May raise ValueError."""
    words = tuple(word.strip().lower() for word in syntax.parse_list(text))
    if unknown := [word for word in words if word not in _SEVERITIES]:
        raise ValueError(f"no severity {unknown[0]!r}")
    return words


Severities = Annotated[tuple[str, ...], Syntax(f"a list of {' and '.join(_SEVERITIES)}", parse_severities, write_list)]


class TargetSettings(AccessSettings):
    """Somebody who is told: a service that Apprise knows, or a webhook."""

    name: ClusterName = Field(description="Name of the target, unique; rules, logs and notify --target name it.")
    type: TargetType = option(
        TargetType.WEBHOOK,
        "webhook: a POST with CloudEvents 1.0 as JSON; apprise: a chat, mail or another service of Apprise, needs the "
        "extra flink-autoscaler[notifications].",
    )
    url: Text | None = Field(
        default=None,
        repr=False,
        description="Where to: http:// or https:// for a webhook, else a URL of Apprise. It is shown nowhere; better "
        "point to it.",
    )
    url_env_variable: Text | None = option(None, "Name of the environment variable with the URL.")
    url_file: Text | None = option(None, "File whose first line is the URL; read again for every message.")
    key_env_variable: Text | None = option(
        None, "webhook: name of the environment variable with the key that bodies are signed with (HMAC-SHA256)."
    )
    key_file: Text | None = option(None, "webhook: file whose first line is that key; read again for every message.")
    timeout: Seconds = option(10.0, "Time that sending one message may take.", gt=0, le=300)


class RuleSettings(OptionSection):
    """Which events are told to which targets. An empty list takes all."""

    targets: Texts = option((), "Names of targets; empty takes all.")
    reasons: Texts = option(
        (), "Reasons of events such as 'RolledBack', or patterns such as 'Rollback*'; empty takes all."
    )
    severities: Severities = option((), "normal, warning; empty takes both.")
    jobs: Texts = option((), "Patterns such as 'orders-*' for names or keys of jobs; empty takes all.")
    clusters: Texts = option(
        (), "Patterns for names of clusters; empty takes all, and what is told about the daemon itself."
    )


class NotificationSettings(OptionSection):
    """People and services that are told about events."""

    targets: tuple[TargetSettings, ...] = option((), "Who is told.")
    rules: tuple[RuleSettings, ...] = option((), "Which events are told; without a rule every warning, to all targets.")
    retry_for: Seconds = option(
        86_400.0, "Time for which it is tried to send an event, with growing pauses, before it is given up.", gt=0
    )
