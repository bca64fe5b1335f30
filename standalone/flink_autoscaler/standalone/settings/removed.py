"""Removed keys, plug-ins and commands of earlier versions, which are refused, each with its replacement.

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


def removed_plugins() -> Mapping[str, Mapping[str, str]]:
    """By group of entry points and name: what to use instead."""
    groups: dict[str, dict[str, str]] = _table()["plugins"]
    return groups


def removed_key(key: str) -> str | None:
    """Return what is wrong with a key that an earlier version had; None for every other key."""
    instead = removed_keys().get(_INDEX.sub(".<n>.", key.removeprefix(LEGACY_PREFIX)))
    return None if instead is None else _sentence(instead)


def removed_plugin(group: str, name: str) -> str | None:
    """Return what is wrong with the name of a plug-in that came with an earlier version; None for every other name."""
    instead = removed_plugins().get(group, {}).get(name)
    return None if instead is None else f"'{name}' {_sentence(instead)}"


def removed_command(words: Sequence[str]) -> str | None:
    """Return what is wrong with a command line that begins with a command of an earlier version; None for others."""
    for name, instead in _table()["commands"].items():
        if name.split() == list(words[: name.count(" ") + 1]):
            return f"'{name}' {_sentence(instead)}"
    return None


def _sentence(instead: str) -> str:
    return f"was removed; use {instead}"
