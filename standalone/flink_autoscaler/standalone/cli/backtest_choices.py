"""What ``backtest`` and ``tune`` try: configurations, and values of options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.options.option import PREFIX
from flink_autoscaler.pipeline.backtest.plan import Candidate
from flink_autoscaler.pipeline.backtest.tune import DEFAULT_GRID, Grid
from flink_autoscaler.standalone.settings.preparation import prepare, read_again
from flink_autoscaler.standalone.settings.schema.options import job_keys, unknown_key
from flink_autoscaler.standalone.settings.schema.settings import Settings

DEFAULTS: Final = "defaults"
"""Name of the configuration without a file."""


def candidates_of(files: Sequence[Path], overrides: Sequence[str]) -> tuple[Settings, list[Candidate]]:
    """Read the configurations; the first one also says how Spark and the log are.

    Args:
        files: Configurations; without any there are the defaults.
        overrides: Texts ``key=value``.

    Raises:
        ConfigError: One cannot be read, or is given twice.
    """
    if not files:
        settings = prepare(None, overrides)
        return settings, [_candidate(DEFAULTS, settings)]
    settings = prepare(files[0], overrides)
    read = [settings, *(read_again(file, overrides) for file in files[1:])]
    return settings, [_candidate(name, each) for name, each in zip(_names(files), read, strict=True)]


def _names(files: Sequence[Path]) -> list[str]:
    """Return the names of files, or their whole paths where names are not unique.

    Raises:
        ConfigError: A file is given twice.
    """
    names = [file.name for file in files]
    if len(set(names)) == len(names):
        return names
    paths = [str(file) for file in files]
    if len(set(paths)) < len(paths):
        raise ConfigError("--config: every configuration can be given once")
    return paths


def _candidate(name: str, settings: Settings) -> Candidate:
    clusters = {each.name: each.job_defaults for each in settings.effective_clusters()} if settings.clusters else {}
    return Candidate(name, settings.job_defaults, clusters)


def grid_of(texts: Sequence[str]) -> Grid:
    """Read a grid; without any text it is the usual one.

    Raises:
        ConfigError: There is no such option, or a value cannot be read.
    """
    return dict(map(_axis, texts)) if texts else DEFAULT_GRID


def _axis(text: str) -> tuple[str, tuple[str, ...]]:
    """Read ``utilization.target=0.6,0.8``."""
    name, equals, values = text.partition("=")
    key = name.strip() if name.strip().startswith(PREFIX) else PREFIX + name.strip()
    tried = tuple(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
    if not equals or not tried:
        raise ConfigError(f"--grid '{text}': expected an option and its values, such as utilization.target=0.6,0.8")
    if problem := unknown_key(key):
        raise ConfigError(f"--grid '{text}': {key}: {problem}")
    option = job_keys().get(key)
    if option is not None:
        for value in tried:
            option.read({option.key: value})
    return key, tried
