"""Plug-ins: entry points of installed distributions, in groups named after the ports."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from flink_autoscaler.core.error_boundary import try_call
from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.options.option import closest_key
from flink_autoscaler.standalone.settings.removals import removed_plugin_problem


class PluginGroup(StrEnum):
    """The groups from which the settings choose one part by name."""

    STORES = "flink_autoscaler.stores"
    EVENT_HANDLERS = "flink_autoscaler.event_handlers"
    REALIZERS = "flink_autoscaler.realizers"
    FETCHERS = "flink_autoscaler.fetchers"
    TASK_MANAGER_PROVIDERS = "flink_autoscaler.task_manager_providers"
    LAG_SOURCES = "flink_autoscaler.lag_sources"


def plugin_names(group: str) -> tuple[str, ...]:
    """Return the names of the installed plug-ins of a group, sorted; nothing is imported."""
    return tuple(sorted({point.name for point in entry_points(group=group)}))


def unknown_plugin_problem(group: str, name: str) -> str | None:
    """Return what is wrong with a name that no plug-in of the group has, with the known ones; None when one has it."""
    names = plugin_names(group)
    if name in names:
        return None
    if message := removed_plugin_problem(group, name):
        return message
    known = ", ".join(names) or "none is installed"
    return f"no plug-in '{name}' in {group}; known: {known}{closest_key(name, names)}"


def load_plugin(group: str, name: str) -> Any:
    """Import a plug-in and return what its entry point names, usually a class.

    Args:
        group: A :class:`PluginGroup`, or the group of somebody else.
        name: Name of the entry point.

    Raises:
        ConfigError: No plug-in has the name, several distributions claim it for different things, or it cannot be
            imported.
    """
    points = [point for point in entry_points(group=group) if point.name == name]
    if not points:
        raise ConfigError(unknown_plugin_problem(group, name))
    if len({point.value for point in points}) > 1:
        owners = ", ".join(sorted(map(_distribution, points)))
        raise ConfigError(f"plug-in '{name}' in {group} is in several distributions: {owners}")
    point = points[0]
    what = f"plug-in '{point.name}' in {point.group} of {_distribution(point)} cannot be imported from {point.value}"
    return _value_or_raise(try_call(point.load, ConfigError, what))  # the import runs foreign code


def make_plugin(group: str, name: str, offered: Mapping[str, object], *, cluster: str | None = None) -> Any:
    """Import a plug-in, for one cluster or for all, and build it from what is offered.

    Raises:
        ConfigError: There is no such plug-in, or it cannot be built.
    """
    of_cluster = "" if cluster is None else f" of cluster '{cluster}'"
    return build(load_plugin(group, name), offered, f"{group} plug-in '{name}'{of_cluster}")


def build(factory: Callable[..., Any], offered: Mapping[str, object], what: str) -> Any:
    """Call a plug-in's class or function with those of the offered values that it has parameters for.

    Args:
        factory: Takes what is offered, any of it or nothing, by name.
        offered: Values by parameter name.
        what: For the message.

    Raises:
        ConfigError: It raised something else than an error of ours.
    """
    return _value_or_raise(try_call(partial(_call, factory, offered), ConfigError, f"{what} could not be started"))


def _call(factory: Callable[..., Any], offered: Mapping[str, object]) -> Any:
    wanted = inspect.signature(factory).parameters
    return factory(**{name: value for name, value in offered.items() if name in wanted})


def _value_or_raise(found: Any) -> Any:
    """Return what was made or imported; raise the error where that is what came of it."""
    if isinstance(found, AutoscalerError):
        raise found
    return found


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"
