"""``python tools/suites.py [NAME] [ARGUMENTS]``: run a suite that ``make test`` leaves out; without a name, list them.

Arguments go to the last command of a suite, which then runs alone.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_PROJECT: Final = Path(__file__).parents[1]
_FLINK: Final = "Flink"
_MACHINES: Final = "root, debootstrap, systemd-container"
_CHECK_TOOLS: Final = {_FLINK: "jdk", _MACHINES: "machines"}


@dataclass(frozen=True)
class Suite:
    """Tests that take too long, or need too much, for ``make test``.

    Attributes:
        takes: Minutes on two quiet cores, what is downloaded once aside.
        commands: Arguments of the interpreter.
        variables: Of the environment, where the user has not set them.
    """

    purpose: str
    needs: str
    takes: str
    commands: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


def _tests(marked: str) -> tuple[str, ...]:
    return (f"-m pytest -s -m {shlex.quote(marked)}",)


SUITES: Final = {
    "long": Suite(
        "more ways on real Flink, the first hour, half an hour beside the simulator",
        _FLINK,
        "75",
        _tests('suite(name="long")'),
    ),
    "rescue": Suite("rescales that die, hang, are edited or compete", _FLINK, "20", _tests('suite(name="rescue")')),
    "faults": Suite(
        "daemons and databases that are killed, stopped and cut off",
        "Debian's databases",
        "10",
        _tests("faults"),
        {"FAULT_ROUNDS": "1"},
    ),
    "hostile": Suite(
        "attacks, then 20,000 lies; one lie again: ARGS=\"--only 'a lie'\"",
        "nothing",
        "150",
        (*_tests('suite(name="hostile")'), "-m testkit.scenarios.hostile_flink"),
    ),
    "model": Suite(
        "100,000 steps of a model of rescales, then a simulated day of every policy under eleven loads; "
        "ARGS=--write takes decisions that differ on purpose",
        "nothing",
        "30",
        ("-m pytest -s tests/unit/properties/test_rescale_machine.py", "tools/decision_digests.py"),
        {"MODEL_STEPS": "100000"},
    ),
    "soak": Suite(
        'a week of a daemon; ARGS="--seconds 7200 --engine spark"', "faketime", "23", ("-m testkit.scenarios.soak",)
    ),
    "spark": Suite(
        "more ways of an embedded Spark: odd hosts, lost JVMs, stalled workers",
        _FLINK,
        "5",
        _tests('suite(name="spark")'),
    ),
    "yarn": Suite("a real YARN and HDFS, Flink and Spark on them", _FLINK, "30", _tests('suite(name="yarn")')),
    "cluster": Suite("real Spark clusters and Spark Connect", _FLINK, "20", _tests('suite(name="cluster")')),
    "services": Suite(
        "real Kafka, a real object store, a real KDC",
        "Flink, Maven once, krb5-kdc",
        "25",
        _tests('suite(name="services")'),
    ),
    "docker": Suite("images, compose file, Debian package and unit", _MACHINES, "40", _tests('suite(name="docker")')),
    "upgrade": Suite("the last release and this version take turns", _FLINK, "10", _tests('suite(name="upgrade")')),
    "python": Suite(
        'unit tests with the lowest versions allowed; ARGS="--python python3.13 --newest", or ARGS="--debian testing"',
        "nothing",
        "15",
        ("-m releasing.versions",),
    ),
}


def main(arguments: list[str]) -> int:
    """Run the suite that is named; return 2 where there is none of that name, else what its first failure returned."""
    if not arguments:
        for name, each in SUITES.items():
            print(f"  {name:<10}{each.takes:>4} min  {each.purpose}\n{'':22}needs {each.needs}")
        return 0
    name, *given = arguments
    suite = SUITES.get(name)
    if suite is None:
        print(f"error: no suite is called '{name}'; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    check = _CHECK_TOOLS.get(suite.needs)
    if check is not None and subprocess.run([_PROJECT / ".ci" / "check-tools", check], check=False).returncode:
        return 1
    path = os.pathsep.join(str(_PROJECT / each) for each in ("tools", "tests"))
    environment = {**suite.variables, **os.environ, "PYTHONPATH": path}
    for command in suite.commands[-1:] if given else suite.commands:
        line = [sys.executable, *shlex.split(command), *given]
        print(f"$ {shlex.join(line)}", flush=True)
        code = subprocess.run(line, cwd=_PROJECT, env=environment, check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
