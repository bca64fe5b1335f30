"""The Python of executors: environments in which our own code is not installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path


def executor_python(folder: Path, *packages: str) -> Path:
    """Make an environment without pip and return its interpreter.

    Args:
        folder: Where it goes; must not exist.
        packages: Import names of what is installed there, nothing else; linked from this environment.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=300)
    [site] = folder.glob("lib/python*/site-packages")
    for package in packages:
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.origin is not None
        (site / package).symlink_to(Path(found.origin).parent, target_is_directory=True)
    return folder / "bin" / "python"


def equipped_python(folder: Path) -> Path:
    """Make an environment with all libraries of this one, but without our own code, and return its interpreter.

    Args:
        folder: Where it goes; must not exist.
    """
    python = executor_python(folder)
    [site] = folder.glob("lib/python*/site-packages")
    # What is named so is not looked through for files that name further folders, as that of our own code is.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return python
