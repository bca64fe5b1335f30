"""``python -m releasing [--into dist] [--no-deb]``: build a release, try each part where nothing else is."""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from releasing.building import PROJECT, ReleaseError, run, uv, version, wheel
from releasing.deb import KINDS, build

_HEADING: Final = re.compile(r"^## \[(?P<version>[^\]]+)\].*$", re.MULTILINE)


def main() -> int:
    """Build everything; return 0 when all of it works."""
    parser = argparse.ArgumentParser(prog="releasing")
    parser.add_argument("--into", type=Path, default=PROJECT / "dist")
    parser.add_argument("--no-deb", action="store_true", help="leave the Debian packages out")
    given = parser.parse_args()
    try:
        release(given.into, kinds=() if given.no_deb else tuple(KINDS))
    except ReleaseError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def release(into: Path, kinds: tuple[str, ...]) -> None:
    """Build all parts of a release into an emptied folder, with checksums and notes.

    Args:
        into: The folder.
        kinds: Debian packages to build.

    Raises:
        ReleaseError: A part cannot be built or does not work, or the changelog has no section about the version.
    """
    text = notes((PROJECT / "CHANGELOG.md").read_text(), version())
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    built = [wheel(into), _source_archive(into)]
    for package in built:
        _try_package(package)
    built.append(_archive_for_executors(into))
    built += [build(KINDS[kind], into) for kind in kinds]
    (into / "SHA256SUMS").write_text("".join(f"{_sha256(path)}  {path.name}\n" for path in built))
    (into / "NOTES.md").write_text(text)
    for path in built:
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")


def notes(changelog: str, wanted: str) -> str:
    """Return what a changelog says about a version; raises :class:`ReleaseError` where it says nothing."""
    found = list(_HEADING.finditer(changelog))
    for place, heading in enumerate(found):
        if heading["version"] == wanted:
            end = found[place + 1].start() if place + 1 < len(found) else len(changelog)
            return f"# flink-autoscaler {wanted}\n\n{changelog[heading.end() : end].strip()}\n"
    raise ReleaseError(f"CHANGELOG.md has no section [{wanted}]")


def _source_archive(into: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", into)
    return into / f"flink_autoscaler-{version()}.tar.gz"


def _try_package(package: Path) -> None:
    """Install it where nothing else is, with pip and as a tool of uv, and ask the program for version and help."""
    for way, install in (("pip install", _with_pip), ("uv tool install", _as_tool)):
        with tempfile.TemporaryDirectory(prefix="flink-autoscaler-release-") as scratch:
            started = time.monotonic()
            program = install(package, Path(scratch))
            seconds = time.monotonic() - started
            said = run(program, "--version", folder=Path(scratch))
            if not said.strip().endswith(version()):
                raise ReleaseError(f"{package.name} says it is {said.strip()}")
            run(program, "--help", folder=Path(scratch))
        print(f"{way} {package.name}: {seconds:.0f} s")


def _with_pip(package: Path, scratch: Path) -> Path:
    run(sys.executable, "-m", "venv", scratch / "venv")
    run(scratch / "venv" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", package)
    return scratch / "venv" / "bin" / "flink-autoscaler"


def _as_tool(package: Path, scratch: Path) -> Path:
    install = (uv(), "tool", "install", "--quiet", "--python", sys.executable, package)
    run(*install, UV_TOOL_DIR=str(scratch / "tools"), UV_TOOL_BIN_DIR=str(scratch / "bin"))
    return scratch / "bin" / "flink-autoscaler"


def _archive_for_executors(into: Path) -> Path:
    """Pack the archive, and import from it without any library."""
    run("make", "--silent", "pyfiles", f"BUILD={into / 'build'}", f"BIN={Path(sys.executable).parent}")
    target = into / f"flink-autoscaler-{version()}-pyfiles.zip"
    shutil.move(into / "build" / "pyfiles.zip", target)
    shutil.rmtree(into / "build")
    program = f"import sys; sys.path.insert(0, {str(target)!r}); import flink_autoscaler.core.model.job"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{target.name} cannot be imported:\n{done.stderr[-2000:]}")
    return target


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
