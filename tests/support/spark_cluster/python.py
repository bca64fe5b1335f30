"""The Python of executors: an environment in which nothing of ours is installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path


def executor_python(folder: Path, *packages: str) -> Path:
    """Make an environment without pip and return its interpreter.

    Args:
        folder: Where it goes; must not exist.
        packages: Import names of what is installed there, nothing else; linked from this environment.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    [site] = folder.glob("lib/python*/site-packages")
    for package in packages:
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.origin is not None
        (site / package).symlink_to(Path(found.origin).parent, target_is_directory=True)
    return folder / "bin" / "python"
