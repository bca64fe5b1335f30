"""Follows words back from the constructors of reasons, events and findings to where they are written."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from testkit.contracts.told_words.sources import FUNCTIONS, Callable, Function, Module, Sources, assigned

Place = tuple[str, int]
"""A file and a line."""

_BEGINNINGS = {
    ("flink_autoscaler.core.model.events", "Reason", "code"): "reason",
    ("flink_autoscaler.core.model.events", "Event", "reason"): "event",
    ("flink_autoscaler.standalone.readiness.checks", "Finding", "code"): "finding",
}


@dataclass
class FoundWords:
    """What was found, by kind of word.

    Attributes:
        words: Places of every word.
        lost: Expressions that could not be followed, with their places.
    """

    words: dict[str, dict[str, set[Place]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    lost: dict[str, dict[str, set[Place]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))


@dataclass(frozen=True)
class _Scope:
    """Where an expression stands: a module, and the functions around it, innermost first."""

    module: Module
    functions: tuple[Function, ...] = ()


def find_words(root: Path, parts: tuple[str, ...]) -> FoundWords:
    """Find every word that the parts of the product below a folder tell."""
    search = _Search(Sources.below(root, parts))
    search.run()
    return search.found


class _Search:
    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.found = FoundWords()
        self._kinds: dict[tuple[str, int, str], set[str]] = defaultdict(set)
        self._calls = [
            (_Scope(module, around), call, tuple(sources.called(module, call.func)))
            for module in sources.modules.values()
            for around, call in _calls(module.tree, ())
        ]

    def run(self) -> None:
        """Follow until no parameter is found any more through which words come."""
        for (module, name, parameter), kind in _BEGINNINGS.items():
            self._open(self.sources.modules[module].callables[name], parameter, kind)
        before = -1
        while before != (before := sum(map(len, self._kinds.values()))):
            for scope, call, reached in self._calls:
                for target in reached:
                    self._follow_call(scope, call, target)

    def _open(self, target: Callable, parameter: str, kind: str) -> None:
        self._kinds[target.module.name, target.node.lineno, parameter].add(kind)

    def _follow_call(self, scope: _Scope, call: ast.Call, target: Callable) -> None:
        for number, parameter in enumerate(target.parameters):
            for kind in tuple(self._kinds.get((target.module.name, target.node.lineno, parameter), ())):
                given = next((each.value for each in call.keywords if each.arg == parameter), None)
                positional = call.args[number] if number < len(call.args) else None
                if (expression := given or positional) is not None:
                    self._follow(scope, expression, kind)

    def _follow(self, scope: _Scope, expression: ast.expr, kind: str) -> None:
        match expression:
            case ast.Constant(str(word)):
                self.found.words[kind][word].add((str(scope.module.path), expression.lineno))
            case ast.Constant(None):
                pass
            case ast.IfExp(body=body, orelse=other):
                self._follow(scope, body, kind)
                self._follow(scope, other, kind)
            case ast.Name(name):
                self._follow_name(scope, name, expression, kind)
            case ast.Attribute(owner, name):
                self._follow_field(scope, owner, name, expression, kind)
            case ast.Subscript(value, ast.Constant(int(number))):
                self._follow_parts(scope, value, number, expression, kind)
            case ast.Call(func=ast.Name() as function):
                self._follow_returned(scope, function, expression, kind)
            case _:
                self._lose(scope, expression, kind)

    def _follow_returned(self, scope: _Scope, function: ast.Name, expression: ast.expr, kind: str) -> None:
        values = [
            (each, value) for each in self.sources.called(scope.module, function) for value in _returned(each.node)
        ]
        for target, value in values:
            self._follow(_Scope(target.module, _own(target)), value, kind)
        if not values:
            self._lose(scope, expression, kind)

    def _follow_name(self, scope: _Scope, name: str, expression: ast.expr, kind: str) -> None:
        for at, function in enumerate(scope.functions):
            values = [value for own, value in assigned(list(_statements(function))) if own == name]
            for value in values:
                self._follow(_Scope(scope.module, scope.functions[at:]), value, kind)
            target = self._callable(scope.module, function)
            is_parameter = target is not None and name in target.parameters
            if target is not None and is_parameter and not values:
                self._open(target, name, kind)
            if values or is_parameter:
                return
        home, original = self.sources.home(scope.module, name)
        if home is None or original not in home.constants:
            self._lose(scope, expression, kind)
        else:
            self._follow(_Scope(home), home.constants[original], kind)

    def _follow_field(self, scope: _Scope, owner: ast.expr, name: str, expression: ast.expr, kind: str) -> None:
        """Take the class that is meant: what its constructor gets is the word."""
        target = self._class_of(scope, owner)
        if target is None or name not in target.parameters:
            self._lose(scope, expression, kind)
        else:
            self._open(target, name, kind)

    def _class_of(self, scope: _Scope, owner: ast.expr) -> Callable | None:
        """Return the class of ``self`` or of a parameter with an annotation."""
        name = owner.id if isinstance(owner, ast.Name) else ""
        for function in scope.functions if name else ():
            if name == "self":
                return next((each for each in self.sources.classes if function in each.node.body), None)
            for argument in (*function.args.args, *function.args.kwonlyargs):
                if argument.arg == name and isinstance(argument.annotation, ast.Name):
                    return next(self.sources.called(scope.module, argument.annotation), None)
        return None

    def _follow_parts(self, scope: _Scope, whole: ast.expr, number: int, expression: ast.expr, kind: str) -> None:
        """Take one place of every tuple that a table or a function has."""
        tuples = list(self._tuples(scope, whole))
        for home, each in tuples:
            self._follow(home, each.elts[number], kind)
        if not tuples:
            self._lose(scope, expression, kind)

    def _tuples(self, scope: _Scope, whole: ast.expr) -> Iterator[tuple[_Scope, ast.Tuple]]:
        match whole:
            case ast.Tuple():
                yield scope, whole
            case ast.Dict(values=values):
                for value in values:
                    yield from self._tuples(scope, value)
            case ast.Subscript(value=ast.Name() as table) | ast.Call(func=ast.Attribute(ast.Name() as table, "get")):
                yield from self._tuples(scope, table)
            case ast.Name(name) if name in scope.module.constants:
                yield from self._tuples(_Scope(scope.module), scope.module.constants[name])
            case ast.Call(func=function):
                for target in self.sources.called(scope.module, function):
                    for value in _returned(target.node):
                        yield from self._tuples(_Scope(target.module, _own(target)), value)
            case ast.IfExp(body=body, orelse=other):
                yield from self._tuples(scope, body)
                yield from self._tuples(scope, other)

    def _callable(self, module: Module, function: Function) -> Callable | None:
        methods = self.sources.methods[function.name]
        known = (*methods, *(each for each in [module.callables.get(function.name)] if each))
        return next((each for each in known if each.node is function), None)

    def _lose(self, scope: _Scope, expression: ast.expr, kind: str) -> None:
        self.found.lost[kind][ast.unparse(expression)].add((str(scope.module.path), expression.lineno))


def _calls(node: ast.AST, around: tuple[Function, ...]) -> Iterator[tuple[tuple[Function, ...], ast.Call]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield around, child
        yield from _calls(child, (child, *around) if isinstance(child, FUNCTIONS) else around)


def _statements(function: Function) -> Iterator[ast.stmt]:
    return (node for node in ast.walk(function) if isinstance(node, ast.stmt))


def _returned(node: ast.AST) -> Iterator[ast.expr]:
    return (each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value is not None)


def _own(target: Callable) -> tuple[Function, ...]:
    return () if isinstance(target.node, ast.ClassDef) else (target.node,)
