"""Which keys there are: those of the daemon, of the core and of its plug-ins, and everything else."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any

from flink_autoscaler.core.options import option as core_option
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import Option, nearest
from flink_autoscaler.standalone.settings.schema.declarations import FREE, INDEX, PREFIX, DaemonOption, daemon_options

JOB_PREFIXES = (core_option.PREFIX, core_option.LEGACY_PREFIX + core_option.PREFIX)
PLUGIN_FAMILIES = ("metrics.custom-evaluator.", "scaling.custom-executor.", "scaling.parallelism-alignment.mode.")
_PLUGIN_PARAMETER = re.compile(
    f"({'|'.join(map(re.escape, JOB_PREFIXES))})({'|'.join(map(re.escape, PLUGIN_FAMILIES))})" + r"[^.]+\..+", re.DOTALL
)
_CLUSTER_OPTION = re.compile(re.escape(PREFIX) + r"clusters\.\d+\.options\.(.+)", re.DOTALL)
_TYPO_SIMILARITY = 0.9
_MOST_KEYS = 16_384
"""Keys whose option is remembered: every check asks for it again, and a list of clusters has many."""


@cache
def job_keys() -> dict[str, Option[Any]]:
    """Every key that sets an option of the core, and the option."""
    return {key: option for option in AutoscalerOptions.declared() for key in option.keys}


@cache
def daemon_keys() -> dict[str, DaemonOption]:
    """Every key without placeholders that sets an option of the daemon, old keys too, and the option."""
    plain = (option for option in daemon_options() if not option.is_pattern)
    return {key: option for option in plain for key in (option.key, *option.old_keys)}


@lru_cache(maxsize=_MOST_KEYS)
def daemon_option(key: str) -> DaemonOption | None:
    """Return the option of the daemon that a key sets, or None."""
    patterns = (option for option in daemon_options() if option.is_pattern)
    return daemon_keys().get(key) or next((option for option in patterns if option.pattern.fullmatch(key)), None)


def is_daemon_key(key: str) -> bool:
    """Tell whether a key belongs to the daemon and not to jobs, be it known or not."""
    return key.startswith(PREFIX) or key in daemon_keys()


def unknown_key(key: str) -> str | None:
    """Return what is wrong with a key below our prefixes that no option has; None for every other key."""
    if key.startswith(PREFIX):
        return _unknown_daemon_key(key)
    return _unknown_job_key(key)


def _unknown_daemon_key(key: str) -> str | None:
    if inner := _CLUSTER_OPTION.fullmatch(key):
        return _unknown_cluster_option(inner[1])
    if daemon_option(key) is not None:
        return None
    numbers = re.match(re.escape(PREFIX) + r"clusters\.(\d+)\.", key)
    candidates = [option.key.replace(INDEX, numbers[1] if numbers else "0") for option in daemon_options()]
    return "unknown key" + nearest(key, [candidate for candidate in candidates if FREE not in candidate])


def _unknown_cluster_option(inner: str) -> str | None:
    if is_daemon_key(inner):
        return f"'{inner}' belongs to the daemon and cannot be set for the jobs of a cluster"
    return _unknown_job_key(inner)


def _unknown_job_key(key: str) -> str | None:
    if not key.startswith(JOB_PREFIXES) or key in job_keys() or _PLUGIN_PARAMETER.fullmatch(key):
        return None
    return "unknown key" + nearest(key, job_keys())


def probably_ours(key: str) -> str | None:
    """Return the known key that a foreign key is a likely misspelling of, such as ``autoscaller.http.port``."""
    if key.startswith((PREFIX, *JOB_PREFIXES)) or is_daemon_key(key):
        return None
    known = [*daemon_keys(), *job_keys()]
    return next(iter(get_close_matches(key, known, n=1, cutoff=_TYPO_SIMILARITY)), None)
