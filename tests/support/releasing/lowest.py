"""``python -m releasing.lowest PYTHON [pytest arguments]``: the unit tests with the lowest allowed versions."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from releasing.building import PROJECT, ReleaseError, run, uv

_TESTS = ("tests/unit/core", "tests/unit/clients", "tests/unit/stores", "tests/unit/realizers", "tests/unit/standalone")


_EXTRAS = "history,postgresql,mysql,notifications"
"""Extras whose lowest versions are tried; PySpark is that of all other tests."""


def _tools() -> list[str]:
    """Return what tests take beside the project, in the versions of today."""
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return [*extras["spark"], *(each for each in extras["test"] if not each.startswith("flink-autoscaler"))]


def main() -> int:
    """Make the environment, say what is in it, and run pytest there; return its exit code."""
    python, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="flink-autoscaler-lowest-") as scratch:
        made = Path(scratch) / "venv"
        try:
            run(uv(), "venv", "--quiet", "--python", python, made)
            lowest = ("--resolution", "lowest-direct", "--python", made)
            run(uv(), "pip", "install", "--quiet", *lowest, "--editable", f".[{_EXTRAS}]")
            run(uv(), "pip", "install", "--quiet", "--python", made, *_tools(), "psutil")
        except ReleaseError as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
        print(run(uv(), "pip", "list", "--quiet", "--python", made))
        tests = () if any(each.startswith("tests") for each in arguments) else _TESTS
        command = [
            made / "bin" / "python",
            "-m",
            "pytest",
            "-q",
            "-m",
            "not (e2e or spark or long)",
            *tests,
            *arguments,
        ]
        return subprocess.run(command, cwd=PROJECT, env=os.environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
