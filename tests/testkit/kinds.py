"""Marks tests by what they start, so that ``make test-fast`` can leave them out: nobody has to remember a mark.

* ``database``: it has a PostgreSQL or MariaDB server, by a fixture.
* ``process``: it, a fixture or a function of its file that it uses, starts a process. What is merely forked from one
  that has loaded everything, as ``testkit.builders.forked_command`` does, is cheap and does not count.

Make it known with ``pytest_plugins = ["testkit.kinds"]``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

SERVERS: Final = frozenset({"postgresql_server", "mariadb_server"})
STARTING: Final = frozenset({"subprocess.run", "subprocess.Popen", "subprocess.check_output", "DaemonProcess"})
"""Names by which a file starts processes."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests, before those with a mark are chosen; where nobody asks for these marks, nobody pays for them."""
    if not any(mark in config.getoption("markexpr") for mark in ("database", "process")):
        return
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if not SERVERS.isdisjoint(item.fixturenames):
            item.add_marker("database")
        starting = names_that_start(item.path)
        if item.originalname in starting or not starting.isdisjoint(item.fixturenames):
            item.add_marker("process")


@cache
def names_that_start(file: Path) -> frozenset[str]:
    """Return the names of functions and classes of a file that start processes, by others of the file too."""
    text = file.read_text(encoding="utf-8")
    if not any(name in text for name in ("subprocess", "DaemonProcess")):
        return frozenset()
    uses = {node.name: frozenset(_names(node)) for node in ast.walk(ast.parse(text)) if isinstance(node, _Named)}
    return _reaching(uses, STARTING) - STARTING


_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            yield f"{each.value.id}.{each.attr}"
        elif isinstance(each, ast.arg):  # a fixture
            yield each.arg


def _reaching(uses: Mapping[str, frozenset[str]], found: frozenset[str]) -> frozenset[str]:
    more = found | {name for name, used in uses.items() if not used.isdisjoint(found)}
    return more if more == found else _reaching(uses, more)
