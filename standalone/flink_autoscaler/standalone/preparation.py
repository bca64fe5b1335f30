"""What every command begins with: configuration, settings and the log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import structlog

from flink_autoscaler.standalone.configuration import load_configuration
from flink_autoscaler.standalone.loading import load_settings
from flink_autoscaler.standalone.logs import configure_logging
from flink_autoscaler.standalone.settings import Settings

log = structlog.get_logger(__name__)


def prepare(file: Path | None, overrides: Sequence[str], *, is_dry_run: bool = False) -> Settings:
    """Read the settings, send the log to where they say, and log what is worth a warning.

    Raises:
        ConfigError: Something is wrong; one line per problem.
    """
    extra = ["autoscaler.dry-run=true"] if is_dry_run else []
    configuration = load_configuration(file=file, environment=os.environ, overrides=[*overrides, *extra])
    settings = load_settings(configuration)
    configure_logging(log_format=settings.log.format.value, level=settings.log.level.value)
    for warning in configuration.warnings:
        log.warning("configuration", text=warning)
    return settings
