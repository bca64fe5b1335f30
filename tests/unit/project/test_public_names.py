"""Every public name of the product means one thing: it is defined in one module."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PROJECT = Path(__file__).parents[3]
PARTS = ("core", "clients", "stores", "realizers", "pipeline", "standalone")

VERBS = frozenset({"build", "close", "create", "decode", "encode", "load", "main", "parse", "read", "render", "run"})
"""Functions that are called with the name of their module: ``codec.encode``, ``schedule.run``."""

REVISIONS = "versions"
"""Folder of the migrations, each of which has to define ``upgrade`` and ``downgrade``."""


def defined_names(path: Path) -> list[str]:
    """Return the public classes and functions at the top of a module."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body
        if isinstance(node, kinds) and not node.name.startswith("_")
    ]


def test_no_public_name_is_defined_in_two_modules() -> None:
    modules = defaultdict(set)
    for part in PARTS:
        for path in (PROJECT / part).rglob("*.py"):
            if REVISIONS not in path.parts:
                for name in defined_names(path):
                    modules[name].add(path.relative_to(PROJECT).as_posix())

    twice = {name: sorted(paths) for name, paths in modules.items() if len(paths) > 1 and name not in VERBS}

    assert twice == {}
