"""Files of tests lie as the modules do; what goes through several of them lies with its feature."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

PROJECT: Final = Path(__file__).parents[3]
TESTS: Final = PROJECT / "tests" / "unit"
ROOTS: Final = ("core", "clients", "realizers", "stores", "pipeline", "standalone")


def modules(root: str) -> set[str]:
    package = PROJECT / root / "flink_autoscaler" / root
    return {str(file.relative_to(package).with_suffix("")) for file in package.rglob("*.py")}


@pytest.mark.parametrize("root", ROOTS)
def test_file_of_tests_has_the_name_and_the_folder_of_its_module(root: str) -> None:
    files = [file.relative_to(TESTS / root) for file in (TESTS / root).rglob("test_*.py")]
    named = {str(file.parent / file.stem.removeprefix("test_")) for file in files}

    assert named <= modules(root)


def test_features_are_the_documented_ones() -> None:
    folders = {file.parent.name for file in (PROJECT / "tests" / "features").glob("*/test_*.py")}
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("| folder of tests/features | feature |\n|---|---|\n")[1].split("\n\n")[0]

    assert {line.split("`")[1] for line in table.splitlines()} == folders
