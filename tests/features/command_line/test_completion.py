"""Completion in a shell: the script, and what it completes; those of other shells are Typer's as well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BASH_LINE = """
source "$HOME/.bashrc"
COMP_WORDS=({words}) COMP_CWORD={at}
_flink_autoscaler_completion flink-autoscaler
echo "${{COMPREPLY[*]}}"
"""


def run(*command: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose PATH begins with a flink-autoscaler of these sources."""
    program = home / "bin" / "flink-autoscaler"
    if not program.exists():
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{home}/main.py" "$@"\n')
        program.chmod(0o755)
        lines = ("import sys", "sys.argv[0] = 'flink-autoscaler'")
        (home / "main.py").write_text(
            "\n".join((*lines, "from flink_autoscaler.standalone.cli.main import main", "main()"))
        )
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    own = {"HOME": str(home), "PATH": path, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment = {**os.environ, **own, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_what_is_installed_completes_in_a_real_bash(tmp_path: Path) -> None:
    installed = run("bash", "-c", "flink-autoscaler --install-completion; echo", home=tmp_path)

    commands = run("bash", "-c", BASH_LINE.format(words="flink-autoscaler on", at=1), home=tmp_path)
    options = run("bash", "-c", BASH_LINE.format(words="flink-autoscaler once --jobm", at=2), home=tmp_path)

    assert "bash completion installed" in installed.stdout
    assert (commands.stdout.strip(), options.stdout.strip()) == ("once", "--jobmanager-url")
