"""Completion in shells: the scripts, and what they complete."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o default -F"), ("zsh", "compdef"), ("fish", "complete --command")]
)
def test_script_is_there_for_every_shell(shell: str, mark: str, tmp_path: Path) -> None:
    done = run("flink-autoscaler", home=tmp_path, _FLINK_AUTOSCALER_COMPLETE=f"source_{shell}")

    assert done.returncode == 0
    assert mark in done.stdout
    assert "flink-autoscaler" in done.stdout


@pytest.mark.parametrize(
    ("shell", "variables"),
    [
        pytest.param("bash", {"COMP_WORDS": "flink-autoscaler on", "COMP_CWORD": "1"}, id="bash"),
        pytest.param("zsh", {"_TYPER_COMPLETE_ARGS": "flink-autoscaler on"}, id="zsh"),
        pytest.param(
            "fish",
            {"_TYPER_COMPLETE_ARGS": "flink-autoscaler on", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
            id="fish",
        ),
    ],
)
def test_on_is_completed_to_once(shell: str, variables: dict[str, str], tmp_path: Path) -> None:
    done = run("flink-autoscaler", home=tmp_path, _FLINK_AUTOSCALER_COMPLETE=f"complete_{shell}", **variables)

    assert done.returncode == 0
    assert "once" in done.stdout
    assert "orders" not in done.stdout


def test_what_is_installed_completes_in_a_real_bash(tmp_path: Path) -> None:
    installed = run("bash", "-c", "flink-autoscaler --install-completion; echo", home=tmp_path)

    commands = run("bash", "-c", BASH_LINE.format(words="flink-autoscaler on", at=1), home=tmp_path)
    options = run("bash", "-c", BASH_LINE.format(words="flink-autoscaler once --ur", at=2), home=tmp_path)

    assert "bash completion installed" in installed.stdout
    assert (commands.stdout.strip(), options.stdout.strip()) == ("once", "--url")
