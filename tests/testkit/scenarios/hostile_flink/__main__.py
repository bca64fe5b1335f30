"""``python -m testkit.scenarios.hostile_flink``: tell many lies, or one of them again."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from testkit.scenarios.hostile_flink.judging import Figures, Verdict
from testkit.scenarios.hostile_flink.lies import Lie, catalogue, chosen
from testkit.scenarios.hostile_flink.running import Plan, confirmed, run_lies


def main(arguments: list[str]) -> int:
    """Run as the arguments say; return 1 when a judgement does not hold."""
    parser = argparse.ArgumentParser(prog="hostile_flink", description=__doc__)
    parser.add_argument("--lies", type=int, default=20_000, help="how many")
    parser.add_argument("--seed", type=int, default=16, help="chooses them")
    parser.add_argument("--only", action="append", default=[], help="this lie, as it is printed; may be repeated")
    parser.add_argument("--containing", default="", help="only lies whose text contains this")
    parser.add_argument("--without", action="append", default=[], help="no lies whose text contains this")
    parser.add_argument("--slots", type=int, default=40, help="jobs that are lied about at the same time, per process")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds from one pass to the next")
    parser.add_argument("--set", action="append", default=[], dest="options", help="an option of the daemon")
    parser.add_argument("--results", type=Path, help="write every verdict there, one per line")
    given = parser.parse_args(arguments)
    lies = _lies(given)
    plan = Plan(
        slots=min(given.slots, max(1, len(lies))),
        processes=min(given.processes, max(1, len(lies) // 10)),
        interval=given.interval,
        options=dict(option.split("=", 1) for option in given.options),
    )
    print(f"{len(lies)} lies with seed {given.seed}", flush=True)
    figures = run_lies(lies, plan, _Progress(len(lies), given.results))
    if not given.only:
        print("again, what a busy machine may have caused:", flush=True)
        figures = confirmed(figures, plan)
    print(figures.examples(20 if given.only else 3))
    print(figures.table(), flush=True)
    return 1 if figures.failed else 0


def _lies(given: argparse.Namespace) -> list[Lie]:
    if given.only:
        return [Lie.of(text) for text in given.only]
    known = [lie for lie in catalogue() if given.containing in str(lie)]
    known = [lie for lie in known if not any(text in str(lie) for text in given.without)]
    return chosen(min(given.lies, len(known)) if given.containing else given.lies, given.seed, known)


class _Progress:
    """Prints a line now and then, and every fault."""

    def __init__(self, count: int, results: Path | None) -> None:
        self._count = count
        self._told = 0
        self._next = 0.0
        self._results = None if results is None else results.open("w")

    def __call__(self, verdict: Verdict | None, figures: Figures) -> None:
        if verdict is not None:
            self._told += bool(verdict.lie)
            if self._results is not None:
                self._results.write(json.dumps(verdict.document()) + "\n")
                self._results.flush()
            if verdict.faults:
                print(f"  {verdict}", flush=True)
        if figures.seconds >= self._next:
            self._next = figures.seconds + 15
            print(f"{figures.seconds:5.0f} s  {self._told} of {self._count}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
