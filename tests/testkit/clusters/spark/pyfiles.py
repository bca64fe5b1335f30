"""The archive for executors, as a release has it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PROJECT = Path(__file__).parents[4]


def make_pyfiles(build: Path) -> Path:
    """Run ``make pyfiles`` and return the archive."""
    # -o: the environment that runs this test is good enough, whatever the time stamps say.
    command = ["make", "--silent", "-o", ".venv/.setup-demo", "pyfiles"]
    places = [f"BUILD={build}", f"BIN={Path(sys.executable).parent}"]
    done = subprocess.run([*command, *places], cwd=_PROJECT, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return build / "pyfiles.zip"
