"""Figures of the tree: lines of code, modules, names with two meanings, comments, lines of tests, words of pages.

``python tools/code_figures.py [--names] [--json]`` in a checkout. Lines of code hold neither blanks nor comments nor
docstrings. A public name is a class or function at the top of a module; one with an underscore counts where another
module imports it. Revisions of the database are left out: each has to define ``upgrade``.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOTS: Final = ("core", "clients", "stores", "realizers", "pipeline", "standalone")
VERBS: Final = frozenset(
    [
        "main",
        "run",
        "read",
        "encode",
        "decode",
        "create",
        "build",
        "parse",
        "load",
        "save",
        "close",
        "start",
        "stop",
        "render",
    ]
)
"""Names that every module may give to what it does."""
SMALL: Final = 80
_DIRECTIVES: Final = ("# noqa", "# type:", "# pragma", "# fmt:")
_LAYOUT: Final = frozenset(
    {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT}
)


@dataclass(frozen=True)
class SourceFile:
    """A module: its lines of code, its lines of comment, and its syntax tree."""

    path: Path
    code: int
    comments: int
    tree: ast.Module

    @classmethod
    def read(cls, path: Path) -> SourceFile:
        """Read and parse a module."""
        text = path.read_text(encoding="utf-8")
        tree, lines, comments = ast.parse(text), set[int](), 0
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in _LAYOUT:
                lines.update(range(token.start[0], token.end[0] + 1))
            elif token.type == tokenize.COMMENT:
                comments += not token.string.startswith(_DIRECTIVES)
        return cls(path, len(lines - set(_docstring_lines(tree))), comments, tree)

    @property
    def functions(self) -> int:
        """Functions and methods, at any depth."""
        return sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(self.tree))

    @property
    def names(self) -> Iterator[str]:
        """Classes and functions at the top of the module."""
        if not {"testing", "versions"} & set(self.path.parts):
            for node in self.tree.body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    yield node.name

    @property
    def imported_underscores(self) -> Iterator[str]:
        """Names with an underscore that the module takes from others."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                yield from (alias.name for alias in node.names if alias.name.startswith("_"))


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of strings that stand alone, also those that document attributes."""
    for node in ast.walk(tree):
        for each in body if isinstance(body := getattr(node, "body", None), list) else ():
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield from range(each.lineno, (each.end_lineno or each.lineno) + 1)


def tracked(*patterns: str) -> list[Path]:
    """Return files that are in version control and in the checkout."""
    listed = subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True, check=True).stdout
    return [path for line in listed.splitlines() if (path := Path(line)).is_file()]


def modules(*folders: str) -> list[SourceFile]:
    """Read the modules of some folders."""
    return [SourceFile.read(path) for path in tracked(*(f"{folder}/*.py" for folder in folders))]


def names_twice(sources: Sequence[SourceFile]) -> dict[str, list[str]]:
    """Return the public names that two modules define, with their modules."""
    defined: dict[str, set[str]] = defaultdict(set)
    imported = {name for source in sources for name in source.imported_underscores}
    for source in sources:
        for name in source.names:
            if name not in VERBS and (not name.startswith("_") or name in imported):
                defined[name].add(str(source.path))
    return {name: sorted(paths) for name, paths in sorted(defined.items()) if len(paths) > 1}


def code_figures(sources: Sequence[SourceFile]) -> dict[str, object]:
    """Return the figures by name, those of single roots first."""
    by_root = {root: sum(s.code for s in sources if s.path.parts[0] == root) for root in ROOTS}
    folders = Counter(s.path.parent for s in sources if s.path.name != "__init__.py")
    total, (widest, width) = sum(by_root.values()), folders.most_common(1)[0]
    tests = modules("tests")
    return {
        **by_root,
        "lines of code": total,
        "with tools and benchmarks": total + sum(s.code for s in modules("tools", "benchmarks")),
        "modules": len(sources),
        f"modules below {SMALL} lines": sum(s.path.name != "__init__.py" and s.code < SMALL for s in sources),
        "functions": sum(s.functions for s in sources),
        "comments per 100 lines": round(100 * sum(s.comments for s in sources) / total, 1),
        "names with two meanings": len(names_twice(sources)),
        "widest folder": f"{width} modules, {widest}",
        "lines of tests": sum(s.code for s in tests),
        "test files": len(tests),
        "words of pages": sum(len(path.read_text(encoding="utf-8").split()) for path in tracked("*.md")),
        "decision records": len(tracked("docs/decisions/0*.md")),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", action="store_true", help="also list the names with two meanings")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    sources = modules(*ROOTS)
    figures = code_figures(sources)
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:28s} {figure}")
    for name, paths in names_twice(sources).items() if arguments.names else ():
        print(f"  {name}: {', '.join(paths)}")


if __name__ == "__main__":
    main()
