"""``python tools/under_load.py [--one-core] COMMAND``: run a command beside four busy loops and a writer of the disk.

With ``--one-core`` the command has one core for itself and its children, and nothing runs beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack

_BUSY_LOOPS = 4
_LOOP = "while True: pass"
_WRITER = """
import os, sys
block = os.urandom(1 << 20)
while True:
    with open(sys.argv[1], "wb") as file:
        for _ in range(64):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
"""


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    if not arguments or arguments[0].startswith("-h") or arguments == ["--one-core"]:
        print(__doc__, file=sys.stderr)
        return 2
    if arguments[0] == "--one-core":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        return subprocess.run(arguments[1:], check=False).returncode
    with ExitStack() as beside:
        folder = beside.enter_context(tempfile.TemporaryDirectory(prefix="flink-autoscaler-load-"))
        for code in (_LOOP,) * _BUSY_LOOPS + (_WRITER,):
            started = subprocess.Popen([sys.executable, "-c", code, f"{folder}/written"])
            beside.callback(started.wait)
            beside.callback(started.kill)
        return subprocess.run(arguments, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
