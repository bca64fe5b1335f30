"""What a command writes goes through one module, which makes foreign text harmless."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

PROJECT: Final = Path(__file__).parents[3]
ROOT: Final = PROJECT / "standalone"
OUTPUT: Final = "cli/output.py"
NOT_FOR_PEOPLE: Final = {
    # Writes lines that its own processors have escaped.
    "observability/logs.py",
}
CALLS: Final = {"print", "echo", "secho", "Console", "print_exc", "print_stack", "pprint"}
"""Functions that write to a terminal by themselves, by whatever module they are called."""


def ways_out(source: str) -> Iterator[int]:
    """Yield the lines in which a module writes to a standard stream by a way of its own."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr=name)) if name in CALLS:
                yield node.lineno
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr" | "__stdout__" | "__stderr__"),
                attr="write" | "writelines" | "buffer",
            ):
                yield node.lineno


@pytest.mark.parametrize(
    "source",
    [
        "print(job)",
        "sys.stdout.write(job)",
        "write = sys.stderr.write",
        "sys.stdout.buffer.write(job)",
        "typer.echo(job, err=True)",
        "Console(stderr=True)",
        "rich.console.Console()",
        "traceback.print_exc()",
    ],
)
def test_way_out_is_noticed(source: str) -> None:
    assert list(ways_out(source)) == [1]


@pytest.mark.parametrize("source", ["sys.stdout.fileno()", "write_out(job)", "stream.write(job)"])
def test_harmless_call_is_none(source: str) -> None:
    assert list(ways_out(source)) == []


def test_commands_and_daemon_write_through_one_module() -> None:
    modules = {
        path: path.relative_to(ROOT / "flink_autoscaler" / "standalone").as_posix() for path in ROOT.rglob("*.py")
    }

    found = [
        f"{name}:{line}"
        for path, name in sorted(modules.items())
        if name != OUTPUT and name not in NOT_FOR_PEOPLE
        for line in ways_out(path.read_text(encoding="utf-8"))
    ]

    assert found == []
