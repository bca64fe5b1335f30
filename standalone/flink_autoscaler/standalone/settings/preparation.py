"""What every command begins with: configuration, settings and the log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import structlog

from flink_autoscaler.standalone.observability.logs import configure_logging
from flink_autoscaler.standalone.settings.default_store import is_store_open, store_to_write
from flink_autoscaler.standalone.settings.loading import load_settings, warnings_of
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.sources.configuration import load_configuration

log = structlog.get_logger(__name__)


def prepare(file: Path | None, overrides: Sequence[str], *, is_dry_run: bool = False) -> Settings:
    """Read the settings, send the log to where they say, and log what is worth a warning.

    Raises:
        ConfigError: Something is wrong; one line per problem.
    """
    settings, warnings = _read(file, overrides, is_dry_run=is_dry_run)
    configure_logging(log_format=settings.log.format.value, level=settings.log.level.value)
    _warn(warnings)
    return settings


def read_again(file: Path | None, overrides: Sequence[str], *, is_dry_run: bool = False) -> Settings:
    """Read the settings for a daemon that runs already, and log what is worth a warning.

    Raises:
        ConfigError: Something is wrong; one line per problem.
    """
    settings, warnings = _read(file, overrides, is_dry_run=is_dry_run)
    _warn(warnings)
    return store_to_write(settings, os.environ).settings if is_store_open(settings) else settings


def with_store(settings: Settings) -> Settings:
    """Return the settings of a daemon that is about to start, and say where state is kept if they leave that open."""
    if not is_store_open(settings):
        return settings
    chosen = store_to_write(settings, os.environ)
    if chosen.path is not None:
        log.info("state_kept", path=str(chosen.path), reason="autoscaler.standalone.state-store.type is not set")
    else:
        log.warning(
            "state_in_memory", reason=chosen.problem, effect="a restart forgets what was learned about the jobs"
        )
    return chosen.settings


def _read(file: Path | None, overrides: Sequence[str], *, is_dry_run: bool) -> tuple[Settings, Iterable[str]]:
    extra = ["autoscaler.dry-run=true"] if is_dry_run else []
    configuration = load_configuration(file=file, environment=os.environ, overrides=[*overrides, *extra])
    settings = load_settings(configuration)
    return settings, warnings_of(configuration, settings)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        log.warning("configuration", text=warning)
