"""The names that users see and programs rely on, as the sources have them: what a change must not lose unnoticed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import typer.main

from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.standalone.cli.main import app
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.settings.schema.options import daemon_options, job_keys

PROJECT = Path(__file__).parents[4]
PARTS = ("core", "clients", "realizers", "stores", "pipeline", "standalone")
_CODE = re.compile(r"[A-Z][A-Z0-9]+(_[A-Z0-9]+)*|[A-Z][a-z]+([A-Z][a-z]+)+")
_SNAKE = re.compile(r"[a-z]+(_[a-z0-9]+)+")
_TELLING = re.compile(r"(Reason|because|Event|tell|hold|explain|Ordered|_without_downs|_sized|warn_about_plugin)$")
_LOGGING = re.compile(r"log\w*\.(debug|info|warning|error|exception)$|_say$|\.say$")


@cache
def names() -> dict[str, list[str]]:
    """Return every group of names, each sorted."""
    return {
        "daemon options": sorted({key for option in daemon_options() for key in (option.key, *option.old_keys)}),
        "job options": sorted(job_keys()),
        "metrics": sorted(family.name for family in Gauges().registry.collect()),
        "entry points": sorted(f"{each.group}: {each.name}" for each in _entry_points()),
        "commands": sorted(_commands(typer.main.get_command(app), "flink-autoscaler")),
        "reasons and events": sorted(_told(_TELLING, _CODE) | _constants()),
        "log lines": sorted(_told(_LOGGING, _SNAKE)),
    }


def texts() -> frozenset[str]:
    """Return every string that stands anywhere in the sources, and the codes of reasons, which are names there."""
    nodes = (node for tree in _trees() for node in ast.walk(tree))
    found = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return frozenset((*found, *ReasonCode))


def _entry_points() -> list[EntryPoint]:
    found = entry_points()
    return [
        each for group in found.groups if group.startswith("flink_autoscaler.") for each in found.select(group=group)
    ]


def _commands(command: Any, path: str) -> Iterator[str]:
    """Return every option and argument; the type is ``Any`` because typer brings a click of its own."""
    for parameter in command.params:
        yield f"{path} {'/'.join((*parameter.opts, *parameter.secondary_opts))}"
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{path} {name}")


@cache
def _trees() -> tuple[ast.Module, ...]:
    paths = (path for part in PARTS for path in sorted((PROJECT / part).rglob("*.py")))
    return tuple(ast.parse(path.read_text(encoding="utf-8")) for path in paths)


def _told(callee: re.Pattern[str], shape: re.Pattern[str]) -> set[str]:
    """Return the names of a shape that calls are given, ``a if … else b`` included."""
    calls = (node for tree in _trees() for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {
        text
        for call in calls
        if callee.search(ast.unparse(call.func))
        for text in _given(call)
        if shape.fullmatch(text)
    }


def _given(call: ast.Call) -> Iterator[str]:
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        branches = (argument.body, argument.orelse) if isinstance(argument, ast.IfExp) else (argument,)
        yield from (each.value for each in branches if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _constants() -> set[str]:
    """Return the names that stand behind constants of modules and members of enumerations."""
    assigned = (
        node.value for tree in _trees() for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign)
    )
    found = (node.value for node in assigned if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {text for text in found if _CODE.fullmatch(text)}
