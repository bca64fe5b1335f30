"""The plug-ins that take part in a pass, found by their entry points, once per process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final

import structlog

from flink_autoscaler.core.error_boundary import ErrorBoundary

if TYPE_CHECKING:
    from flink_autoscaler.core.ports.plugins import Plugins

log = structlog.get_logger(__name__)

POLICIES: Final = "flink_autoscaler.policies"
"""The group of entry points that policies are in."""


@lru_cache(maxsize=1)
def installed_plugins() -> Plugins:
    """Return the installed plug-ins of a pass. One that cannot be loaded is reported and left out.

    Evaluators, executors and alignment modes are known by the ``module.Class`` that their entry point names, as
    the ``class`` options of a job name them; resource checks, error checkers and policies by the name of their
    entry point.
    """
    # Imported here: the settings need no more of this module than the name of a group.
    from flink_autoscaler.core.ports.plugins import Plugins  # noqa: PLC0415

    return Plugins(
        evaluators=_by_identity("flink_autoscaler.evaluators"),
        executors=_by_identity("flink_autoscaler.executors"),
        alignment_modes=_by_identity("flink_autoscaler.alignment_modes"),
        resource_checks=_by_name("flink_autoscaler.resource_checks"),
        error_checkers=_by_name("flink_autoscaler.error_checkers"),
        policies=_by_name(POLICIES),
    )


def _by_name(group: str) -> Mapping[str, Any]:
    return {entry.name: part for entry, part in _load_group(group).items()}


def _by_identity(group: str) -> Mapping[str, Any]:
    return {entry.value.replace(":", "."): part for entry, part in _load_group(group).items()}


def _load_group(group: str) -> dict[EntryPoint, Any]:
    parts = {}
    for entry in entry_points(group=group):
        with ErrorBoundary() as boundary:  # the jobs that do not use it are not concerned
            parts[entry] = entry.load()()
        if boundary.error is not None:
            log.warning("plugin_not_loaded", group=group, name=entry.name, error=str(boundary.error))
    return parts
