"""``python -m testkit.scenarios.soak``: a week without a person in some twenty minutes, and whether anything grows."""

from __future__ import annotations

import argparse
import signal
import sys

from testkit.scenarios.soak.plan import Plan
from testkit.scenarios.soak.running import soak


def main(arguments: list[str]) -> int:
    """Run as the arguments say; return 1 when something grows or a daemon does not recover."""
    usual = Plan()
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=usual.seconds, help="of the whole run")
    parser.add_argument("--jobs", type=int, default=usual.jobs, help="at any time")
    parser.add_argument("--clusters", type=int, default=usual.clusters, help="over which they are spread")
    parser.add_argument("--leaving", type=float, default=usual.leaving, help="jobs that leave per second")
    parser.add_argument("--interval", type=float, default=usual.interval, help="seconds from one pass to the next")
    parser.add_argument("--engine", default=usual.engine, help="of the daemon: inline or spark")
    parser.add_argument("--set", action="append", default=[], dest="options", help="an option of the daemon")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # what was started is stopped
    given = vars(parser.parse_args(arguments))
    given["options"] = dict(option.split("=", 1) for option in given["options"])
    outcome = soak(Plan(**given), lambda each: print(each, flush=True))
    print(outcome.table())
    for fault in outcome.faults:
        print(f"FAULT: {fault}", flush=True)
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
