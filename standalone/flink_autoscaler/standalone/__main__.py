"""``flink-autoscaler``, also as ``python -m flink_autoscaler.standalone``."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Ctrl-C ends a command at once and without a traceback, also while it loads; the daemon replaces this.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from flink_autoscaler.standalone.cli.main import main

if __name__ == "__main__":
    main()
