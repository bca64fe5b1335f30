"""The modules of the product as syntax trees, with what a name in one of them refers to."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, eq=False)
class Callable:
    """A function, or a class by the fields of its constructor.

    Attributes:
        name: Without module and class.
        parameters: In order, without ``self``.
    """

    module: Module
    name: str
    parameters: tuple[str, ...]
    node: Function | ast.ClassDef
    is_method: bool = False


@dataclass(frozen=True, eq=False)
class Module:
    """One file."""

    name: str
    path: Path
    tree: ast.Module

    @cached_property
    def imported(self) -> dict[str, tuple[str, str]]:
        """Module and name of what is imported, by the name it has here."""
        froms = (node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom) and node.module)
        return {alias.asname or alias.name: (str(node.module), alias.name) for node in froms for alias in node.names}

    @cached_property
    def constants(self) -> dict[str, ast.expr]:
        """Values that are assigned on the level of the module."""
        return dict(assigned(self.tree.body))

    @cached_property
    def callables(self) -> dict[str, Callable]:
        """Functions and classes on the level of the module, by name."""
        tops = (node for node in self.tree.body if isinstance(node, (*FUNCTIONS, ast.ClassDef)))
        return {node.name: _callable(self, node) for node in tops}


@dataclass(frozen=True)
class Sources:
    """All modules, by name."""

    modules: dict[str, Module]
    methods: dict[str, list[Callable]] = field(default_factory=lambda: defaultdict(list))
    classes: list[Callable] = field(default_factory=list)

    @classmethod
    def below(cls, root: Path, parts: tuple[str, ...]) -> Sources:
        """Read the sources of the parts; contracts for authors of plug-ins are no part of the product's words."""
        sources = cls({})
        for part in parts:
            for path in sorted((root / part).rglob("*.py")):
                if "testing" not in path.parts:
                    sources.add(_module(root / part, path))
        return sources

    def add(self, module: Module) -> None:
        self.modules[module.name] = module
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                self.classes.append(_callable(module, node))
                for inner in node.body:
                    if isinstance(inner, FUNCTIONS):
                        self.methods[inner.name].append(_callable(module, inner, is_method=True))

    def called(self, module: Module, target: ast.expr) -> Iterator[Callable]:
        """Yield what a call may reach: by its name, or every method of that name; of ``self`` those of the module."""
        if isinstance(target, ast.Attribute):
            named = self.methods[target.attr]
            if ast.unparse(target.value) == "self" and (own := [each for each in named if each.module is module]):
                yield from own
            elif not target.attr.startswith("_"):
                yield from named
        elif isinstance(target, ast.Name):
            home, name = self.home(module, target.id)
            if home is not None and name in home.callables:
                yield home.callables[name]

    def home(self, module: Module, name: str) -> tuple[Module | None, str]:
        """Return the module that defines a name, and its name there."""
        origin, original = module.imported.get(name, (module.name, name))
        home = self.modules.get(origin)
        if home is not None and origin != module.name and original in home.imported:
            return self.home(home, original)
        return home, original


def assigned(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Yield names and the values that they get; of tuples name by name where both sides are tuples."""
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        for target in targets if isinstance(value, ast.expr) else ():
            yield from _pairs(target, value)


def _pairs(target: object, value: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name) and value is not None:
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for each, its_value in zip(target.elts, value.elts, strict=True):
            yield from _pairs(each, its_value)
    elif isinstance(target, ast.Tuple) and value is not None:
        for number, each in enumerate(target.elts):
            yield from _pairs(each, ast.copy_location(ast.Subscript(value, ast.Constant(number)), value))


def _module(part: Path, path: Path) -> Module:
    name = ".".join(path.relative_to(part).with_suffix("").parts).removesuffix(".__init__")
    return Module(name, path, ast.parse(path.read_text(encoding="utf-8")))


def _callable(module: Module, node: Function | ast.ClassDef, *, is_method: bool = False) -> Callable:
    return Callable(module, node.name, tuple(_parameters(node, is_method)), node, is_method)


def _parameters(node: Function | ast.ClassDef, is_method: bool) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        own = next((each for each in node.body if isinstance(each, FUNCTIONS) and each.name == "__init__"), None)
        if own is not None:
            yield from _parameters(own, is_method=True)
        else:
            fields = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
            yield from (target.id for target in fields if isinstance(target, ast.Name))
        return
    is_static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in node.decorator_list)
    positional = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    yield from positional[1:] if is_method and not is_static else positional
    yield from (argument.arg for argument in node.args.kwonlyargs)
