"""Running uv and other programs, and the environments that are made with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

from pip_settings import read_settings

from testkit.clusters.flink.cache import cache_directory

PROJECT: Final = Path(__file__).parents[2]


class ReleaseError(Exception):
    """A part of the release cannot be built, or does not work; with the end of what was said."""


def version() -> str:
    """Return the version of the project."""
    return str(tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"])


def run(*words: object, folder: Path = PROJECT, timeout: float = 900.0, **variables: str) -> str:
    """Run a program; return what it printed, or raise :class:`ReleaseError`."""
    command = [str(word) for word in words]
    environment = {**os.environ, **read_settings(Path(sys.executable)).for_uv(os.environ), **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise ReleaseError(f"{' '.join(command)} ended with {done.returncode}:\n{last}")
    return done.stdout


def uv() -> str:
    """Return the path of uv."""
    own = Path(sys.executable).with_name("uv")
    found = str(own) if own.exists() else shutil.which("uv")
    if found is None:
        raise ReleaseError("uv is not installed: pip install uv")
    return found


def wheel(into: Path) -> Path:
    """Build the wheel."""
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", into)
    return max(into.glob("flink_autoscaler-*.whl"))


def environment(folder: Path, *packages: object, python: str = sys.executable) -> Path:
    """Make an empty environment with some packages; return its folder. The cached wheel of PySpark is used."""
    shutil.rmtree(folder, ignore_errors=True)
    run(uv(), "venv", "--quiet", "--python", python, folder)
    install(folder, *packages)
    return folder


def install(folder: Path, *packages: object) -> None:
    """Install packages into an environment. What is cached as a wheel, PySpark above all, is not built anew."""
    found = read_settings(Path(sys.executable)).for_uv(os.environ).get("UV_FIND_LINKS", "")
    wheels = [each for each in found.split(",") if each] + [str(each) for each in cache_directory().glob("wheels/*")]
    run(uv(), "pip", "install", "--quiet", "--python", folder, *packages, UV_FIND_LINKS=",".join(wheels))
