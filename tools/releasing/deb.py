"""``python -m releasing.deb [inline|spark] --into dist``: a Debian package with environment, unit and configuration."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from releasing.building import PROJECT, ReleaseError, run, uv, version, wheel

HOME: Final = "opt/flink-autoscaler"
_SYSTEM_PYTHON: Final = "/usr/bin/python3"

_CONTROL: Final = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: flink-autoscaler
Section: admin
Priority: optional
Depends: {depends}
Conflicts: {other}
Installed-Size: {size}
Description: Keeps Apache Flink jobs at the right parallelism
 A daemon beside Flink clusters on YARN or standalone. {about}
"""

_AFTER: Final = """\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    if [ -n "$2" ]; then systemctl try-restart flink-autoscaler.service || true; fi
fi
"""
_BEFORE_REMOVAL: Final = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl disable --now flink-autoscaler.service || true; fi
"""
_INLINE: Final = """\
# This package has no Spark.
[Service]
Environment=AUTOSCALER__ENGINE__KIND=inline
"""


@dataclass(frozen=True)
class Kind:
    """One of the two packages.

    Attributes:
        lock: Lock file of what is in its environment.
        name: Of the package.
        other: The package that it cannot be beside.
        needs: Beside Python.
    """

    lock: str
    name: str
    other: str
    needs: tuple[str, ...]
    about: str


KINDS: Final = {
    "spark": Kind(
        *("spark", "flink-autoscaler", "flink-autoscaler-inline"),
        ("openjdk-17-jre-headless | java17-runtime-headless", "procps"),
        "Jobs are evaluated on an embedded Spark.",
    ),
    "inline": Kind(
        *("inline", "flink-autoscaler-inline", "flink-autoscaler"),
        (),
        "Jobs are evaluated in its own process.",
    ),
}


def build(kind: Kind, into: Path) -> Path:
    """Build a package for the Debian of this machine; return its path.

    Raises:
        ReleaseError: There is no Python of Debian here, or a step failed.
    """
    into.mkdir(parents=True, exist_ok=True)
    minor = _minor()
    with tempfile.TemporaryDirectory(prefix="flink-autoscaler-deb-") as scratch:
        tree = Path(scratch) / "tree"
        _fill_environment(kind, tree / HOME, Path(scratch))
        _fill_system(kind, tree)
        _write_control(kind, tree, minor)
        package = into / f"{kind.name}_{version()}_{_architecture()}.deb"
        run("dpkg-deb", "--root-owner-group", "-Zzstd", "-z3", "--build", tree, package)
    return package


def _minor() -> tuple[int, int]:
    if not Path(_SYSTEM_PYTHON).exists() or shutil.which("dpkg-deb") is None:
        raise ReleaseError(f"a Debian package is built on Debian, with {_SYSTEM_PYTHON} and dpkg-deb")
    major, minor = run(_SYSTEM_PYTHON, "-c", "import sys; print(*sys.version_info[:2])").split()
    return int(major), int(minor)


def _architecture() -> str:
    return run("dpkg", "--print-architecture").strip()


def _fill_environment(kind: Kind, home: Path, scratch: Path) -> None:
    """Install what the lock file says, by hash, and the project; it works at its final path only."""
    run(uv(), "venv", "--quiet", "--python", _SYSTEM_PYTHON, home)
    install = (uv(), "pip", "install", "--quiet", "--python", home, "--link-mode", "copy")
    run(*install, "--require-hashes", "-r", PROJECT / "requirements" / f"{kind.lock}.txt", UV_FIND_LINKS="")
    run(*install, "--no-deps", "--no-index", wheel(scratch))
    run(sys.executable, PROJECT / "docker" / "trim.py", home)
    for script in (home / "bin").iterdir():
        if script.is_file() and not script.is_symlink() and script.read_bytes().startswith(b"#!"):
            script.write_text(script.read_text().replace(str(home), f"/{HOME}"))
    for activate in (home / "bin").glob("activate*"):
        activate.unlink()
    run(_SYSTEM_PYTHON, "-m", "compileall", "-q", "-s", home.parents[1], "-p", "/", home / "lib")


def _fill_system(kind: Kind, tree: Path) -> None:
    """Put unit, configuration and the command where Debian has them."""
    unit = tree / "lib" / "systemd" / "system" / "flink-autoscaler.service"
    configuration = tree / "etc" / "flink-autoscaler" / "autoscaler.yaml"
    for target in (unit, configuration):
        target.parent.mkdir(parents=True)
    shutil.copy(PROJECT / "conf" / "flink-autoscaler.service", unit)
    shutil.copy(PROJECT / "conf" / "autoscaler.yaml", configuration)
    if kind.lock == "inline":
        drop_in = unit.with_name(f"{unit.name}.d") / "inline.conf"
        drop_in.parent.mkdir()
        drop_in.write_text(_INLINE)
    command = tree / "usr" / "bin" / "flink-autoscaler"
    command.parent.mkdir(parents=True)
    command.symlink_to(f"/{HOME}/bin/flink-autoscaler")
    documents = tree / "usr" / "share" / "doc" / kind.name
    documents.mkdir(parents=True)
    shutil.copy(PROJECT / "LICENSE", documents / "copyright")


def _write_control(kind: Kind, tree: Path, minor: tuple[int, int]) -> None:
    major, number = minor
    python = (f"python3 (>= {major}.{number})", f"python3 (<< {major}.{number + 1})")
    size = sum(path.lstat().st_size for path in tree.rglob("*")) >> 10
    control = tree / "DEBIAN"
    control.mkdir()
    facts = {"name": kind.name, "other": kind.other, "about": kind.about, "size": size, "version": version()}
    text = _CONTROL.format(**facts, architecture=_architecture(), depends=", ".join((*python, *kind.needs)))
    (control / "control").write_text(text)
    (control / "conffiles").write_text("/etc/flink-autoscaler/autoscaler.yaml\n")
    for name, script in (("postinst", _AFTER), ("prerm", _BEFORE_REMOVAL)):
        (control / name).write_text(script)
        (control / name).chmod(0o755)
    for path in tree.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)


def main() -> int:
    """Build one package and print its path."""
    parser = argparse.ArgumentParser(prog="releasing.deb")
    parser.add_argument("kind", choices=KINDS, nargs="?", default="spark")
    parser.add_argument("--into", type=Path, default=PROJECT / "dist")
    given = parser.parse_args()
    try:
        print(build(KINDS[given.kind], given.into))
    except ReleaseError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
