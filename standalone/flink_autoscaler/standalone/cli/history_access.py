"""Access to a history for commands: which one is meant, which part of it, and the Spark session it may need."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.tables.files import Files, MissingHistoryError, open_files, own_session
from flink_autoscaler.pipeline.tables.store import FolderListing, HistoryFilter, jobs_like
from flink_autoscaler.standalone.cli.command import HistoryOptions, read_instant
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.spark import spark_settings

SMALL: Final = 2_000_000
"""Bytes of a history that is looked at in a moment, and that is not worth what is done for large ones."""


def is_small(found: Iterable[FolderListing]) -> bool:
    """Tell whether some folders hold little."""
    return sum(entry.size for folder in found for entry in folder.entries) <= SMALL


@contextmanager
def open_history(settings: Settings, asked: HistoryOptions) -> Iterator[Files]:
    """Give access to the history that is meant.

    Raises:
        ConfigError: None is named, or there is no such folder.
        HistoryError: Its file system does not answer.
    """
    with (
        explain_missing_folder(settings, asked),
        open_files(history_path(settings, asked), lambda: spark_session(settings)) as files,
    ):
        yield files


def history_path(settings: Settings, asked: HistoryOptions) -> str:
    """Return where the history is that is meant. May raise :class:`ConfigError`."""
    path = asked.path or settings.history.path
    if path is None:
        raise ConfigError("which history? Give --path, or set autoscaler.history.path")
    return path


@contextmanager
def explain_missing_folder(settings: Settings, asked: HistoryOptions) -> Iterator[None]:
    """Let an error about a folder that is not there say where it was named."""
    try:
        yield
    except MissingHistoryError as error:
        hint = "" if settings.history.enabled else "; autoscaler.history.enabled is not true"
        raise ConfigError(f"{'--path' if asked.path else 'autoscaler.history.path'}: {error}{hint}") from error


def spark_session(
    settings: Settings, *, min_memory: int = 0, conf: Mapping[str, str] | None = None
) -> AbstractContextManager[Any]:
    """Lend a Spark session of this process.

    Args:
        settings: Of the engine.
        min_memory: Heap in bytes; what the settings say counts where it is more.
        conf: What suits the command; what is configured goes before it.
    """
    # Of this process, whatever the daemon uses: a Spark Connect server lends no access to its file systems.
    configured = settings.engine.spark_master
    master = configured if configured.startswith("local") else "local[*]"
    return own_session(spark_settings(settings, master, min_memory=min_memory, conf=conf))


def parse_selection(asked: HistoryOptions, now: float | None = None, jobs: str | None = None) -> HistoryFilter:
    """Return the part of a history that is meant.

    Args:
        asked: The options.
        now: The present, epoch seconds; None takes the clock's.
        jobs: Pattern for jobs; None takes all.

    Raises:
        ConfigError: An instant cannot be read, or nothing is between them.
    """
    at = time.time() if now is None else now
    since, until = (
        None if text is None else read_instant(text, at, option)
        for option, text in (("--since", asked.since), ("--until", asked.until))
    )
    if since is not None and until is not None and since >= until:
        raise ConfigError(f"--since '{asked.since}' is not before --until '{asked.until}'")
    clusters = None if asked.clusters is None else frozenset(asked.clusters)
    return HistoryFilter(since, until, clusters, None if jobs is None else jobs_like(jobs))
