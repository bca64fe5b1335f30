"""The parts import each other in one direction only, and stay readable."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
PREFIX = "flink_autoscaler"

# What a part may import besides itself.
ALLOWED = {
    "core": set(),
    "clients": {"core"},
    "realizers": {"core", "clients"},
    "stores": {"core"},
    "pipeline": {"core", "clients"},
    "standalone": {"core", "clients", "realizers", "stores", "pipeline"},
}
# Libraries that only some modules may import, as paths of the project.
CONFINED = {
    "pyspark": "pipeline/",
    "httpx": "clients/flink_autoscaler/clients/http/",
    "uvloop": "clients/flink_autoscaler/clients/http/",
    "gssapi": "clients/flink_autoscaler/clients/auth/kerberos.py",
    "krb5": "clients/flink_autoscaler/clients/auth/kerberos.py",
}
LONGEST_MODULE = 500
LONGEST_FUNCTION = 60

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def part_of(path: Path) -> str:
    return path.relative_to(PROJECT).parts[0]


def imported(tree: ast.AST) -> Iterator[str]:
    """Absolute names of everything a module imports, wherever in the module; ``.`` for a relative import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from _imported_from(node)


def _imported_from(node: ast.ImportFrom) -> Iterator[str]:
    if node.level:
        yield "."
    elif node.module == PREFIX:
        yield from (f"{PREFIX}.{alias.name}" for alias in node.names)
    else:
        yield node.module or ""


def is_confined(name: str, library: str, path: Path) -> bool:
    return name.split(".", maxsplit=1)[0] != library or name_of(path).startswith(CONFINED[library])


def public_definitions(tree: ast.Module | ast.ClassDef) -> Iterator[Function | ast.ClassDef]:
    """Public functions and classes, and the public members of those."""
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and not speaks_for_itself(node):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node)


def speaks_for_itself(node: Function | ast.ClassDef) -> bool:
    """Private definitions, overloads, and what contract classes consist of: tests named as claims, and fixtures."""
    decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    return node.name.startswith(("_", "test_")) or "overload" in decorators or "pytest.fixture" in decorators


MODULES = sorted(path for part in ALLOWED for path in (PROJECT / part).rglob("*.py"))
EVERY_MODULE = pytest.mark.parametrize("path", MODULES, ids=name_of)


def test_every_part_has_modules() -> None:
    assert {part_of(path) for path in MODULES} == set(ALLOWED)


@EVERY_MODULE
def test_module_imports_only_parts_below_it(path: Path) -> None:
    names = [name for name in imported(tree_of(path)) if name.startswith(f"{PREFIX}.")]

    parts = {name.split(".")[1] for name in names}

    assert parts <= ALLOWED[part_of(path)] | {part_of(path)}


@EVERY_MODULE
def test_module_imports_absolutely(path: Path) -> None:
    assert "." not in list(imported(tree_of(path)))


@EVERY_MODULE
def test_module_leaves_confined_libraries_alone(path: Path) -> None:
    strays = [name for library in CONFINED for name in imported(tree_of(path)) if not is_confined(name, library, path)]

    assert not strays


@pytest.mark.parametrize("path", [path for path in MODULES if part_of(path) == "core"], ids=name_of)
def test_core_imports_only_the_standard_library(path: Path) -> None:
    roots = {name.split(".")[0] for name in imported(tree_of(path))}

    assert roots <= {*sys.stdlib_module_names, PREFIX}


@pytest.mark.parametrize("part", ALLOWED)
def test_namespace_package_has_no_init(part: str) -> None:
    # One such file hides the other five parts.
    assert not (PROJECT / part / PREFIX / "__init__.py").exists()


@pytest.mark.parametrize("part", ALLOWED)
def test_part_has_one_package_that_is_typed(part: str) -> None:
    namespace = PROJECT / part / PREFIX

    packages = [child.name for child in namespace.iterdir() if child.is_dir() and child.name != "__pycache__"]

    assert packages == [part]
    assert (namespace / part / "__init__.py").is_file()
    assert (namespace / part / "py.typed").is_file()


@EVERY_MODULE
def test_module_documents_what_is_public(path: Path) -> None:
    tree = tree_of(path)

    silent = [node.name for node in public_definitions(tree) if ast.get_docstring(node) is None]

    assert ast.get_docstring(tree), "the module has no docstring"
    assert not silent


@EVERY_MODULE
def test_module_is_short_enough(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_MODULE


@EVERY_MODULE
def test_functions_are_short_enough(path: Path) -> None:
    functions = [node for node in ast.walk(tree_of(path)) if isinstance(node, Function)]

    too_long = {
        node.name: length
        for node in functions
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    }

    assert not too_long
