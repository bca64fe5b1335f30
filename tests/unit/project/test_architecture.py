"""The parts import each other in one direction only, and stay readable."""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
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
LONGEST_MODULE = 600
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


def found_in(
    faults_of: Callable[[Path], Iterable[object]], modules: Iterable[Path] = MODULES
) -> dict[str, list[object]]:
    """Return what a rule finds, by module; a test per rule, since one per rule and module is thousands."""
    found = {name_of(path): list(faults_of(path)) for path in modules}
    return {name: faults for name, faults in found.items() if faults}


def test_every_part_has_modules() -> None:
    assert {part_of(path) for path in MODULES} == set(ALLOWED)


def test_modules_import_only_parts_below_them() -> None:
    def upwards(path: Path) -> set[str]:
        names = [name for name in imported(tree_of(path)) if name.startswith(f"{PREFIX}.")]
        return {name.split(".")[1] for name in names} - ALLOWED[part_of(path)] - {part_of(path)}

    assert not found_in(upwards)


def test_modules_import_absolutely() -> None:
    assert not found_in(lambda path: [name for name in imported(tree_of(path)) if name == "."])


def test_modules_leave_confined_libraries_alone() -> None:
    def strays(path: Path) -> Iterator[str]:
        pairs = itertools.product(CONFINED, imported(tree_of(path)))
        return (name for library, name in pairs if not is_confined(name, library, path))

    assert not found_in(strays)


def test_core_imports_only_the_standard_library() -> None:
    def foreign(path: Path) -> set[str]:
        return {name.split(".")[0] for name in imported(tree_of(path))} - {*sys.stdlib_module_names, PREFIX}

    assert not found_in(foreign, [path for path in MODULES if part_of(path) == "core"])


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


def test_modules_document_what_is_public() -> None:
    def silent(path: Path) -> list[str]:
        tree = tree_of(path)
        nodes = [node.name for node in public_definitions(tree) if ast.get_docstring(node) is None]
        return nodes if ast.get_docstring(tree) else ["the module itself", *nodes]

    assert not found_in(silent)


def test_modules_are_short_enough() -> None:
    def excess(path: Path) -> list[int]:
        length = len(path.read_text().splitlines())
        return [length] if length > LONGEST_MODULE else []

    assert not found_in(excess)


def test_functions_are_short_enough() -> None:
    def too_long(path: Path) -> list[tuple[str, int]]:
        functions = [node for node in ast.walk(tree_of(path)) if isinstance(node, Function)]
        lengths = [(node.name, (node.end_lineno or node.lineno) - node.lineno + 1) for node in functions]
        return [(name, length) for name, length in lengths if length > LONGEST_FUNCTION]

    assert not found_in(too_long)
