"""What is not ours is called behind a border; whoever catches everything by himself has a reason of his own."""

from __future__ import annotations

import ast
from pathlib import Path

PROJECT = Path(__file__).parents[3]

OWN_WAYS = {
    # The border itself, and the text of an error that has none.
    "core/flink_autoscaler/core/error_boundary.py": 2,
    "core/flink_autoscaler/core/errors.py": 1,
    # Puts what four libraries raise into words of an operator; by single requests, and by rounds of them.
    "clients/flink_autoscaler/clients/http/forms.py": 1,
    "clients/flink_autoscaler/clients/http/transport.py": 2,
    # Hands what a thread raised to the one who waits for it.
    "clients/flink_autoscaler/clients/http/event_loop.py": 1,
}
"""Places that catch everything, by file of the parts where every place has to be a border."""


def catches_everything(node: ast.AST) -> bool:
    return isinstance(node, ast.ExceptHandler) and (
        node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))
    )


def places(part: str) -> dict[str, int]:
    found = {}
    for path in sorted((PROJECT / part).rglob("*.py")):
        count = sum(map(catches_everything, ast.walk(ast.parse(path.read_text(), str(path)))))
        if count:
            found[path.relative_to(PROJECT).as_posix()] = count
    return found


def test_core_and_clients_catch_everything_at_borders_only() -> None:
    assert {**places("core"), **places("clients"), **places("realizers")} == OWN_WAYS


def test_fetchers_and_passes_catch_everything_at_borders_only() -> None:
    found = places("standalone") | places("pipeline")

    assert not [name for name in found if "/fetchers/" in name or "/engine/" in name or name.endswith("_pass.py")]
