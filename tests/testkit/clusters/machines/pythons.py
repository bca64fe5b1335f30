"""The unit tests on the Python of another Debian.

They run in a folder with that Debian, in a mount namespace of their own, with the newest packages that are allowed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from testkit.clusters.flink.cache import cache_directory
from testkit.clusters.machines.errors import MachineError
from testkit.clusters.machines.images import PROJECT, scratch_folder
from testkit.clusters.machines.roots import Root, missing_tools, root

_PACKAGES: Final = (
    *("python3", "python3-venv", "python3-pip", "ca-certificates", "git", "make", "openssl", "procps"),
    "default-jre-headless",  # the default engine does not start without it
)
# The folders of the root are those of an overlay: what is written there ends with the tests.
_SETUP: Final = """
set -e
mount --make-rprivate /
mount -t overlay overlay -o lowerdir="$ROOT",upperdir="$SCRATCH/upper",workdir="$SCRATCH/work" "$SCRATCH/root"
cd "$SCRATCH/root"
for each in /proc /sys /dev $SHARED; do mkdir -p ".$each"; mount --rbind "$each" ".$each"; done
for each in /etc/resolv.conf /etc/hosts; do touch ".$each"; mount --bind "$each" ".$each"; done
exec chroot . sh -c 'cd "$0" && exec "$@"' "$PROJECT" "$@"
"""


def on_debian(suite: str, arguments: list[str]) -> int:
    """Run the unit tests, with these arguments of pytest; return their exit code."""
    if reason := missing_tools():
        sys.stderr.write(f"error: {reason}\n")
        return 1
    try:
        found = root(Root(f"tests-{suite}-2", suite, _PACKAGES))
    except MachineError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return _in_root(found, ["python3", "-m", "releasing.versions", "--newest", *arguments])


def _in_root(found: Path, command: list[str]) -> int:
    work = scratch_folder(found.name)
    shutil.rmtree(work, ignore_errors=True)
    for name in ("upper", "work", "root"):
        (work / name).mkdir(parents=True)
    shared = [each for each in (PROJECT, cache_directory(), *_of_pip()) if each.exists()]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"},
        "ROOT": str(found),
        "SCRATCH": str(work),
        "PROJECT": str(PROJECT),
        "SHARED": " ".join(map(str, shared)),
        "PYTHONPATH": f"{PROJECT}/tools:{PROJECT}/tests",
        "PATH": f"/usr/sbin:/usr/bin:/sbin:/bin:{PROJECT / '.venv' / 'bin'}",
    }
    try:
        wrapped = ["unshare", "--mount", "sh", "-c", _SETUP, "sh", *command]
        return subprocess.run(wrapped, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _of_pip() -> tuple[Path, ...]:
    """Return the folders with the configuration of pip, what uv has kept, and packages that are found there."""
    kept = Path(os.environ.get("UV_CACHE_DIR", Path.home() / ".cache" / "uv"))
    return (Path.home() / ".config" / "pip", kept, *map(Path, os.environ.get("PIP_FIND_LINKS", "").split()))
