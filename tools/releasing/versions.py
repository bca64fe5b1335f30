"""``python -m releasing.versions [--python PYTHON] [--newest] [pytest arguments]``: the unit tests with other versions.

Those of the project's dependencies are the lowest that are allowed, or with ``--newest`` the newest; with
``--debian SUITE`` the newest on the Python of that Debian.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from releasing.building import PROJECT, ReleaseError, environment, install, run, uv
from testkit.clusters.machines.pythons import on_debian

_TESTS = (
    "tests/unit/core",
    "tests/unit/clients",
    "tests/unit/stores",
    "tests/unit/realizers",
    "tests/unit/standalone",
    "tests/features",
)
_EXTRAS = "history,postgresql,mysql,notifications"
"""Extras whose versions are tried, beside that of reports without its Spark."""

_LOWEST = ("--resolution", "lowest-direct")


def main() -> int:
    """Make the environment, say what is in it, and run pytest there; return its exit code."""
    parser = argparse.ArgumentParser(prog="releasing.versions")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--newest", action="store_true")
    parser.add_argument("--debian", metavar="SUITE", help="a release of Debian, such as testing")
    given, arguments = parser.parse_known_args()
    if given.debian:
        return on_debian(given.debian, arguments)
    with tempfile.TemporaryDirectory(prefix="flink-autoscaler-versions-") as scratch:
        try:
            python = _environment(Path(scratch) / "venv", given.python, () if given.newest else _LOWEST)
        except ReleaseError as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
        tests = () if any(each.startswith("tests") for each in arguments) else _TESTS
        command = [python, "-m", "pytest", "-q", "-m", "not (e2e or spark or suite)", *tests, *arguments]
        return subprocess.run(command, cwd=PROJECT, env=os.environ, check=False).returncode


def _environment(made: Path, python: str, resolution: tuple[str, ...]) -> Path:
    """Make an environment with the project and what its tests take, and print it; return its interpreter."""
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    environment(made, *resolution, "--editable", f".[{_EXTRAS}]", *_foreign(extras["report"]), python=python)
    # PySpark is that of all other tests: the lowest one would be built anew.
    install(made, *extras["spark"], *_foreign(extras["test"]), "psutil")
    print(run(made / "bin" / "python", "--version"), run(uv(), "pip", "list", "--quiet", "--python", made), sep="")
    return made / "bin" / "python"


def _foreign(requirements: list[str]) -> list[str]:
    """Return what is not this project with an extra."""
    return [each for each in requirements if not each.startswith("flink-autoscaler")]


if __name__ == "__main__":
    sys.exit(main())
