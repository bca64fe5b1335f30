"""Removed and renamed keys, plug-ins and commands of earlier versions, which are refused, each with its replacement.

One table for every place that refuses them, ``removed.toml`` beside this module, so that who upgrades reads the same
sentence wherever the word was written.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

from flink_autoscaler.core.options.option import LEGACY_PREFIX

_INDEX: Final = re.compile(r"\.\d{1,4}\.", re.ASCII)


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("removed.toml").read_text(encoding="utf-8"))


@cache
def removed_keys() -> Mapping[str, str]:
    """By key, ``<n>`` for a number in a list: what to use instead."""
    return {word: group["instead"] for group in _table()["keys"] for word in group["words"]}


def renamed(what: str = "") -> Mapping[str, str]:
    """Return new names by the old ones: of keys, or of ``commands``, ``log-events``, ``metrics`` or ``fields``."""
    names: dict[str, str] = _table()[f"renamed-{what}" if what else "renamed"]
    return names


def removed_plugins() -> Mapping[str, Mapping[str, str]]:
    """By group of entry points and name: what to use instead."""
    groups: dict[str, dict[str, str]] = _table()["plugins"]
    return groups


def removed_key_problem(key: str) -> str | None:
    """Return what is wrong with a key that an earlier version had; None for every other key."""
    plain = _INDEX.sub(".<n>.", key.removeprefix(LEGACY_PREFIX))
    if (instead := removed_keys().get(plain)) is not None:
        return _removed(instead)
    for old, new in renamed().items():
        if plain == old or (old.endswith(".") and plain.startswith(old)):
            return _renamed(f"{new}{key.removeprefix(old)}" if old.endswith(".") else new)
    return None


def removed_plugin_problem(group: str, name: str) -> str | None:
    """Return what is wrong with the name of a plug-in that came with an earlier version; None for every other name."""
    instead = removed_plugins().get(group, {}).get(name)
    return None if instead is None else f"'{name}' {_removed(instead)}"


def removed_command_problem(words: Sequence[str]) -> str | None:
    """Return what is wrong with a command line of an earlier version, or with an option in it; None for others."""
    for name, instead in _table()["commands"].items():
        if _begins(words, name.split()):
            return f"'{name}' {_removed(instead)}"
    for name, new in renamed("commands").items():
        command, _, option = name.partition(" --")
        if _begins(words, command.split()) and (not option or any(f"--{option}" == w.split("=")[0] for w in words)):
            return f"'{name}' {_renamed(new)}"
    return None


def _begins(words: Sequence[str], command: Sequence[str]) -> bool:
    return list(words[: len(command)]) == list(command)


def _removed(instead: str) -> str:
    return f"was removed; use {instead}"


def _renamed(new: str) -> str:
    return f"was renamed; use {new}"
