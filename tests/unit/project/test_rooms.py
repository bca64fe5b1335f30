"""The rooms of the house: none too full, no way back inside the core, and nothing heavy behind a light door."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
PARTS = ("core", "clients", "realizers", "stores", "pipeline", "standalone")
MOST_MODULES = 20

# A room of the core may import those before it.
ORDER = (
    "model",
    "options",
    "ports",
    "observe",
    "evaluate",
    "policies",
    "forecast",
    "decide",
    "rescale",
    "cycle",
)
CORE = PROJECT / "core" / "flink_autoscaler" / "core"

# The same of the daemon; the modules beside its rooms import none of them.
STANDALONE_ORDER = (
    "settings",
    "fetchers",
    "ha",
    "external_metrics",
    "notifications",
    "records",
    "history",
    "daemon",
    "readiness",
    "operator_commands",
    "views",
    "observability",
    "web",
    "service",
    "cli",
)
STANDALONE = PROJECT / "standalone" / "flink_autoscaler" / "standalone"


def folders() -> Iterator[Path]:
    for part in PARTS:
        source = PROJECT / part / "flink_autoscaler" / part
        yield from (folder for folder in (source, *source.rglob("*")) if folder.is_dir() and any(folder.glob("*.py")))


def rooms_imported(path: Path, part: str) -> set[str]:
    """Return the rooms of a part that a module imports, wherever in the module."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    names = [node.module.split(".") for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {name[2] for name in names if name[:2] == ["flink_autoscaler", part] and len(name) > 2}


@pytest.mark.parametrize("folder", list(folders()), ids=lambda folder: folder.relative_to(PROJECT).as_posix())
def test_no_room_is_too_full(folder: Path) -> None:
    modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]

    assert len(modules) <= MOST_MODULES


@pytest.mark.parametrize(("folder", "order"), [(CORE, ORDER), (STANDALONE, STANDALONE_ORDER)])
def test_a_part_has_the_rooms_of_the_order(folder: Path, order: tuple[str, ...]) -> None:
    rooms = {path.name for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"}

    assert rooms == set(order)


@pytest.mark.parametrize(
    ("path", "part", "order"),
    [
        pytest.param(path, folder.name, order, id=path.relative_to(folder.parent).as_posix())
        for folder, order in ((CORE, ORDER), (STANDALONE, STANDALONE_ORDER))
        for path in sorted(path for room in order for path in (folder / room).rglob("*.py"))
    ],
)
def test_no_way_leads_back(path: Path, part: str, order: tuple[str, ...]) -> None:
    room = path.relative_to(PROJECT / part / "flink_autoscaler" / part).parts[0]

    above = rooms_imported(path, part) & set(order[order.index(room) + 1 :])

    assert not above, f"{room} comes before {', '.join(above)}"


def test_modules_beside_the_rooms_of_the_daemon_import_none() -> None:
    beside = [path for path in STANDALONE.glob("*.py") if path.name != "__main__.py"]

    assert {path.name: rooms_imported(path, "standalone") & set(STANDALONE_ORDER) for path in beside} == {
        path.name: set() for path in beside
    }


def test_clients_decide_nothing() -> None:
    sources = sorted((PROJECT / "clients").rglob("*.py"))

    deciding = {path.name: rooms_imported(path, "core") & {"cycle", "rescale"} for path in sources}

    assert not {name: rooms for name, rooms in deciding.items() if rooms}


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        pytest.param("core", {"httpx", "aiohttp", "pyspark", "pyarrow", "sqlalchemy", "structlog"}, id="core"),
        pytest.param(
            "standalone.cli.main", {"httpx", "aiohttp", "asyncio", "pyspark", "pyarrow", "sqlalchemy"}, id="commands"
        ),
        pytest.param("standalone.service.serve", {"pandas", "py4j", "pyspark"}, id="daemon"),
        pytest.param("pipeline.simulator", {"httpx", "aiohttp", "pyspark"}, id="simulator"),
    ],
)
def test_importing_loads_nothing_heavy(module: str, heavy: set[str]) -> None:
    program = f"import sys, flink_autoscaler.{module}; print(*sorted({heavy!r} & set(sys.modules)))"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)

    assert done.stdout.split() == []
