"""The virtual environment, and installing into it with uv, or with pip where there is no uv."""

from __future__ import annotations

import os
from pathlib import Path

from downloads.pip_settings import PipSettings

from installing.failures import SetupError, explain
from installing.work import Work, warn

CONSTRAINTS = Path("requirements") / "dev.txt"
"""Versions that all tests were seen to pass with: a release of a dependency changes nothing here by itself."""

_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")


class Environment:
    """``.venv``.

    Attributes:
        python: Its interpreter.
        directory: Where it is.
    """

    def __init__(self, directory: Path, work: Work) -> None:
        self.directory = directory
        self.python = directory / "bin" / "python"
        self._work = work
        self._uv = directory / "bin" / "uv"
        self._unfinished = directory / ".unfinished"
        self._installing = directory / ".installing"

    def make(self, base: str) -> None:
        """Make it with an interpreter, unless it is there and whole."""
        if self.python.exists() and not self._unfinished.exists() and self._answers([self.python, *_PIP, "--version"]):
            return
        with self._work.step(f"making {self.directory}"):
            self._work.run([base, "-m", "venv", "--clear", "--without-pip", self.directory])
            self._unfinished.touch()
            self._work.run([self.python, "-m", "ensurepip", "--upgrade", "--default-pip"])
            self._unfinished.unlink()

    def add_uv(self) -> bool:
        """Install uv, which is quicker than pip; return False where there is none for this machine.

        Raises:
            SetupError: The package index cannot be reached.
        """
        if self._answers([self._uv, "--version"]):
            return True
        with self._work.step("getting uv (20 MB)"):
            command: list[str | Path] = [
                self.python,
                *_PIP,
                "install",
                "--retries",
                "2",
                "--only-binary",
                ":all:",
                "uv",
            ]
            said = self._work.output(command)
        if said is None and self._answers([self._uv, "--version"]):
            return True
        if reason := explain(said or ""):
            raise SetupError(reason)
        warn("there is no uv for this machine: pip installs, which takes longer")
        return False

    def install(self, extra: str, settings: PipSettings, wheels: Path | None, *, with_uv: bool) -> None:
        """Install the project with an extra, in the versions of :data:`CONSTRAINTS`.

        Args:
            extra: Of ``pyproject.toml``.
            settings: Where packages come from.
            wheels: Directory with wheels that are built already.
            with_uv: Whether there is uv.
        """
        again = self._installing.exists()  # an earlier try was stopped in the middle of a package
        self._installing.touch()
        found = [] if wheels is None else ["--find-links", str(wheels)]
        project = ["--constraint", str(CONSTRAINTS), "--editable", f".[{extra}]"]
        with self._work.step(f"installing the project and what {extra} needs"):
            if not (with_uv and self._installed_by_uv([*found, *project], settings, again=again)):
                fresh = ["--force-reinstall"] if again else []
                self._work.run([self.python, *_PIP, "install", "--no-compile", *fresh, *found, *project])
        self._installing.unlink()

    def build_wheel(self, archive: Path, into: Path, settings: PipSettings, *, with_uv: bool) -> None:
        """Build the wheel of a source archive into a directory."""
        scratch = into / "tmp"
        scratch.mkdir()
        config = scratch / "build.cfg"
        # Its content is compressed already: compressing it again takes longer than all the rest.
        config.write_text("[bdist_wheel]\ncompression = stored\n")
        extra = {"DIST_EXTRA_CONFIG": str(config), "TMPDIR": str(scratch)}
        if with_uv:
            command: list[str | Path] = [
                self._uv,
                "build",
                "--wheel",
                "--python",
                self.python,
                "--out-dir",
                into,
                archive,
            ]
            self._work.run(command, settings.for_uv(os.environ) | extra)
        else:
            self._work.run([self.python, *_PIP, "wheel", "--no-deps", "--wheel-dir", into, archive], extra)

    def _installed_by_uv(self, what: list[str], settings: PipSettings, *, again: bool) -> bool:
        fresh = [*(["--reinstall"] if again else []), *([] if settings.has_index else ["--no-index"])]
        said = self._work.output(
            [self._uv, "pip", "install", "--python", self.python, *fresh, *what], settings.for_uv(os.environ)
        )
        if said is not None:
            if (reason := explain(said)) and "disk" in reason:
                raise SetupError(reason)
            warn(f"uv did not manage ({self._work.log} has its reasons): pip tries, which takes longer")
        return said is None

    def _answers(self, command: list[str | Path]) -> bool:
        return Path(command[0]).exists() and self._work.output(command) is None
