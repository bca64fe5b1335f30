"""What a constant of the policy ``slo`` is good for: it halved and doubled, one after the other, on three loads.

``python -m benchmarks.policy_study.ablations [--load NAME ...] [--constant NAME ...]``, from the repository's root:
without names, all of them, most of a minute each way. Runs that are in the file of results already are not made again.
A share that is remembered or that bounds something near 1 is not doubled: what it leaves to 1 is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from benchmarks.policy_study.__main__ import ROOT
from flink_autoscaler.core.policies.slo.constants import CONSTANTS

LOADS: Final = ("office", "swing", "elb")
TERMS: Final = ("--set", "tune", "--policy", "slo", "--days", "2", "--seeds", "1", "--load")
NEAR_ONE: Final = frozenset(
    {"mix_fading", "saturated", "quantile", "max_quantile", "age_fading", "kept", "quiet_load", "lag_share"}
)
"""Shares whose distance to 1 is what counts."""
FACTORS: Final = frozenset({"blind_growth", "coarse", "spare", "min_step"})
"""Likewise, from 1 on."""


def variants(name: str, chosen: Any) -> Iterator[Any]:
    """Yield the half and the double of a constant; of stages, the first half, and twice as long ones."""
    if isinstance(chosen, tuple):
        yield list(chosen[: len(chosen) // 2])
        yield [2 * each for each in (*chosen[:8], chosen[-1], chosen[-1])]
    elif name in NEAR_ONE | FACTORS:
        yield from (round(1 + (chosen - 1) * times, 6) for times in (0.5, 2))
    elif isinstance(chosen, int):
        yield from (chosen // 2, 2 * chosen)
    else:
        yield from (chosen / 2, 2 * chosen)


def total(loads: Sequence[str], *arguments: str) -> str:
    """Return the last row of the study's table with these arguments: all loads."""
    command = [sys.executable, "-m", "benchmarks.policy_study", *TERMS, *loads, *arguments]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode:
        return (answer.stderr.splitlines() or ["failed"])[-1]
    _, _, _, cost, slots, late, _, over, rescales, _ = answer.stdout.splitlines()[-1].strip("| ").split(" | ")
    return f"cost {cost}, slots {slots}, late {late} %, over {over}, {rescales} rescales a day"


def main() -> None:
    constants = asdict(CONSTANTS)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policy_study.ablations", description=__doc__)
    parser.add_argument("--load", nargs="+", default=LOADS, metavar="NAME", help="of the set tune")
    parser.add_argument("--constant", nargs="+", default=list(constants), choices=constants, metavar="NAME")
    arguments = parser.parse_args()
    print("as chosen:", total(arguments.load), flush=True)
    for name in arguments.constant:
        for value in variants(name, constants[name]):
            figures = total(arguments.load, "--constant", f"{name}={json.dumps(value)}")
            print(f"{name} {constants[name]} -> {value}: {figures}", flush=True)


if __name__ == "__main__":
    main()
