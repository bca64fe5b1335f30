"""Why a question is not answered, where a status of its own says so."""

from __future__ import annotations

from flink_autoscaler.core.errors import AutoscalerError, ConfigError


class NotFoundError(ConfigError):
    """There is no such job, pass or cluster."""


class ConflictError(AutoscalerError):
    """It could be done, but not now or not with this daemon: the message says what has to change first."""
