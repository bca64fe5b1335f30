"""Run policies on a set of loads and print one table; what was run before is not run again.

``python -m benchmarks.policy_study --set tune --policy capacity slo [--pair 60/60] [--days 7]``, from the root of the
repository. ``--checkout DIR`` runs the policies of another checkout, such as an earlier release, on the same loads.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.oracles import OracleCache
from benchmarks.policy_study.cases import PAIRS, SETS, Case, cases
from benchmarks.policy_study.table import Result, append_result, read_results, summary, table

ROOT: Final = Path(__file__).parents[2]
PARTS: Final = ("core", "clients", "stores", "realizers", "pipeline", "standalone")
SIMULATED: Final = ("core", "pipeline/flink_autoscaler/pipeline/simulator")
"""What a result depends on."""

LOOKS: Final = Path(__file__).with_name("looks.md")
CACHE: Final = Path(os.environ.get("FLINK_AUTOSCALER_CACHE", Path.home() / ".cache" / "flink-autoscaler"))


def digest(checkout: Path) -> str:
    """Return a digest of the code that decides what a simulation comes to."""
    found = hashlib.sha256()
    for folder in SIMULATED:
        for path in sorted((checkout / folder).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()[:12]


def simulated(case: Case, options: dict[str, str], constants: dict[str, Any], checkout: Path) -> dict[str, Any]:
    """Run a case in a process of its own.

    Args:
        case: The load.
        options: Of the job, without their prefix.
        constants: Of the policy ``slo``, by name, where they are not its own.
        checkout: Whose policies are run.

    Raises:
        CalledProcessError: It failed; what it said is on standard error.
    """
    workload = case.workload()
    asked = {
        "options": {"slo.lag": f"{case.limit:g} s", **options},
        "rows": workload.rows,
        "step": workload.step,
        "outage": case.outage,
        "limit": case.limit,
        "constants": constants,
    }
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.policy_study.simulation_process"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(checkout / part) for part in PARTS)},
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return figures


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policy_study", description=__doc__)
    parser.add_argument("--set", choices=SETS, default="tune")
    parser.add_argument("--policy", nargs="+", default=["capacity", "slo"], metavar="NAME")
    parser.add_argument(
        "--pair", nargs="+", default=["60/60"], choices=PAIRS, help="outage and acceptable lag, seconds"
    )
    parser.add_argument("--days", type=float, default=7.0, help="of every load")
    parser.add_argument("--load", nargs="+", metavar="NAME", help="only these of the set")
    parser.add_argument("--seeds", type=int, help="only so many of the set")
    parser.add_argument(
        "--option", nargs="+", default=[], metavar="KEY=VALUE", help="of the job, without job.autoscaler."
    )
    parser.add_argument(
        "--constant", nargs="+", default=[], metavar="NAME=JSON", help="of the policy slo, for ablations"
    )
    parser.add_argument("--checkout", type=Path, default=ROOT, metavar="DIR", help="whose policies are run")
    parser.add_argument("--also", nargs="+", default=[], metavar="LABEL", help="rows of earlier runs in the table")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--results", type=Path, default=CACHE / "policy-study.jsonl", help="file that is added to")
    parser.add_argument("--note", default="", help="why the check set is looked at; kept with its figures")
    arguments = parser.parse_args()
    unknown = set(arguments.load or ()) - set(SETS[arguments.set].shapes)
    if unknown:
        parser.error(
            f"the set {arguments.set} has no {', '.join(sorted(unknown))}; it has "
            f"{' '.join(SETS[arguments.set].shapes)}"
        )
    if wrong := [each for each in (*arguments.option, *arguments.constant) if "=" not in each]:
        parser.error(f"{wrong[0]} is not KEY=VALUE")
    if arguments.set == "check" and not arguments.note:
        parser.error("--note: say why the check set is looked at")
    return arguments


def label_of(policy: str, arguments: argparse.Namespace) -> str:
    """Return what a policy is called in results and tables."""
    name = policy
    if arguments.checkout.resolve() != ROOT:
        command = ["git", "-C", str(arguments.checkout), "rev-parse", "--short=7", "HEAD"]
        name += "@" + subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return " ".join((name, *arguments.option, *arguments.constant))


def run_case(policy: str, case: Case, code: str, arguments: argparse.Namespace) -> Result:
    """Run a case and keep its result."""
    # Up to 0.2.0 the option was called ``policies``; a key that a checkout does not know does nothing in it.
    options = {"policy": policy, "policies": policy, **dict(each.split("=", 1) for each in arguments.option)}
    constants = {name: json.loads(value) for name, value in (each.split("=", 1) for each in arguments.constant)}
    figures = simulated(case, options, constants, arguments.checkout.resolve())
    oracle = case.oracle(OracleCache(CACHE / "oracles"))
    result = Result(label_of(policy, arguments), code, case, figures, oracle)
    append_result(arguments.results, result)
    print(
        f"{result.label}, {case.shape} {case.seed} {case.pair}: cost {result.cost:.3f}, slots {result.slots:.3f}, "
        f"late {100 * result.late:.2f} %, {result.rescales:.1f} rescales a day, {result.processor:.0f} s a week"
        f"{''.join(f'; {count} passes: {text}' for text, count in figures['errors'].items())}",
        file=sys.stderr,
        flush=True,
    )
    return result


def note_look(results: list[Result], pair: str, arguments: argparse.Namespace) -> None:
    """Add a row to the looks at the check set."""
    first = results[0]
    with LOOKS.open("a", encoding="utf-8") as file:
        cells = (
            f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
            f"{first.label} ({first.code})",
            pair,
            f"{first.case.days:g}",
            *summary(results),
            arguments.note,
        )
        file.write(f"| {' | '.join(cells)} |\n")


def main() -> None:
    arguments = parsed()
    wanted = [
        case
        for case in cases(arguments.set, tuple(arguments.pair), arguments.days)
        if (arguments.load is None or case.shape in arguments.load)
        and (arguments.seeds is None or case.seed in SETS[arguments.set].seeds[: arguments.seeds])
    ]
    code = digest(arguments.checkout)
    labels = {label_of(policy, arguments): policy for policy in arguments.policy}
    known = {(each.label, each.code, each.case) for each in read_results(arguments.results)}
    missing = [(label, case) for case in wanted for label in labels if (label, code, case) not in known]
    with ThreadPoolExecutor(arguments.processes) as pool:
        run = partial(run_case, code=code, arguments=arguments)
        try:
            new = list(pool.map(lambda each: run(labels[each[0]], each[1]), missing))
        except subprocess.CalledProcessError as error:
            pool.shutdown(cancel_futures=True)
            sys.exit(error.returncode)  # the process has said why
    if arguments.set == "check":
        for label, pair in dict.fromkeys((each.label, each.case.pair) for each in new):
            note_look([each for each in new if (each.label, each.case.pair) == (label, pair)], pair, arguments)
    print(*table(read_results(arguments.results), wanted, [*arguments.also, *labels]), sep="\n")


if __name__ == "__main__":
    main()
