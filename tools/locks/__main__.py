"""``python -m locks [--upgrade]``: write the lock files in ``requirements/``."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from pip_settings import read_settings

from locks import BUILD, DEVELOPMENT, EXTRAS, FOLDER, OLDEST_PYTHON, PROJECT, lock_file

_BUILD_TOOLS = ("hatchling>=1.27", "uv>=0.9")
_DEVELOPMENT = ("--extra", "dev", "--extra", "kerberos", "--no-emit-package", "pyspark")
"""PySpark is bounded by ``pyproject.toml`` alone: its wheel is built ahead of the installation."""
_HEAD = "# {what}\n# Written by `make lock`{rest}\n"


def main() -> int:
    """Write all lock files, those with more packages first, so that the others pin the same."""
    parser = argparse.ArgumentParser(prog="locks")
    parser.add_argument("--upgrade", action="store_true", help="take what is new instead of what is pinned")
    upgrade = ["--upgrade"] if parser.parse_args().upgrade else []
    FOLDER.mkdir(exist_ok=True)
    _write("connect", str(PROJECT / "pyproject.toml"), [*_extras("connect"), *upgrade])
    for name in ("spark", "inline", "kerberos"):
        _write(name, str(PROJECT / "pyproject.toml"), [*_extras(name), "--constraint", str(lock_file("connect"))])
    _write(DEVELOPMENT, str(PROJECT / "pyproject.toml"), [*_DEVELOPMENT, "--constraint", str(lock_file("inline"))])
    with tempfile.NamedTemporaryFile("w", suffix=".in") as wanted:
        wanted.write("\n".join(_BUILD_TOOLS))
        wanted.flush()
        _write(BUILD, wanted.name, upgrade)
    return 0


def _extras(name: str) -> list[str]:
    return [word for extra in EXTRAS[name] for word in ("--extra", extra)]


def _write(name: str, source: str, more: list[str]) -> None:
    target = lock_file(name)
    options = ["--universal", "--python-version", OLDEST_PYTHON]
    options += [] if name == DEVELOPMENT else ["--generate-hashes"]
    plain = ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--quiet"]
    uv = Path(sys.executable).with_name("uv")
    command = [
        str(uv) if uv.exists() else "uv",
        "pip",
        "compile",
        *options,
        *plain,
        *more,
        "--output-file",
        str(target),
        source,
    ]
    # Wheels of the cache are other archives than those of the index.
    settings = read_settings(Path(sys.executable)).for_uv(os.environ)
    environment = {**os.environ, **settings}
    environment.pop("UV_FIND_LINKS", None)
    subprocess.run(command, cwd=PROJECT, env=environment, stdout=subprocess.DEVNULL, check=True)
    text = re.sub(r"\A(#.*\n)*", "", target.read_text())
    target.write_text(_head(name) + text)


def _head(name: str) -> str:
    if name == DEVELOPMENT:
        return _HEAD.format(what="Constraints of what `make setup`, `make demo` and `make test` install", rest=".")
    what = f"flink-autoscaler[{','.join(EXTRAS[name])}]" if name in EXTRAS else "What builds flink-autoscaler"
    return _HEAD.format(what=what, rest="; every archive is known by its hash.")


if __name__ == "__main__":
    sys.exit(main())
