"""A fence around decisions: what every policy asks for on a simulated day of eleven loads, kept in a file.

A digest is of the instants at which rescales were requested and of the parallelism of every vertex, of no codes and no
texts. ``make suite NAME=model`` compares; ``--write`` takes what is decided now, with the figures that say by how much
it differs, so that a change of decisions is seen in the commit that makes it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.pipeline.backtest.case import builtin_case
from flink_autoscaler.pipeline.backtest.nightly_profiles import nightly_profiles_of
from flink_autoscaler.pipeline.simulator import Simulation, run

EXPECTED: Final = Path(__file__).parents[1] / "tests" / "fixtures" / "decisions.json"
LATE_AFTER: Final = 60.0
PREFIX: Final = "job.autoscaler."

LOADS: Final = (
    "office",
    "week-sine",
    "growth",
    "holiday",
    "swing",
    "step",
    "spikes",
    "bursts",
    "upstream-outage",
    "opposite",
    "three-sources",
)
SEEDS: Final = (0, 1)
CONFIGURATIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "capacity": {},
    "capacity, reference": {"compat": "reference"},
    "capacity, forecast": {"forecast.enabled": "true"},
    "capacity, schedule": {
        "schedule.plans": "days=mon-fri, from=07:00, to=19:00, min-parallelism=12; "
        "from=02:00, to=05:00, max-parallelism=8",
    },
    "slo": {"policy": "slo"},
    "varga": {"policy": "varga"},
}


@dataclass(frozen=True)
class Decided:
    """A simulated day of a policy: the digest of its rescales, and what they come to.

    Attributes:
        late_minutes: Minutes with a lag of more than 60 s.
    """

    digest: str
    slot_hours: float
    late_minutes: float
    rescales: int


def simulate_decisions(configuration: str, load: str, seed: int, days: float = 1.0) -> Decided:
    """Simulate a load and return what the policy asked for."""
    options = {PREFIX + key: value for key, value in CONFIGURATIONS[configuration].items()}
    has_forecast = PREFIX + "forecast.enabled" in options
    subject = builtin_case(load, days=days, seed=seed, with_past=has_forecast)
    profiles = tuple(night.result for night in nightly_profiles_of(subject, options)) if has_forecast else ()
    simulation = Simulation(
        subject.model,
        subject.workload,
        options,
        installed_plugins(),
        terms=subject.terms,
        slo_lag=LATE_AFTER,
        profiles=profiles,
    )
    result = run(simulation)
    asked = [[each.instant, sorted(each.wanted.items())] for each in result.decisions]
    measures = result.measures
    return Decided(
        hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16],
        round(measures.slot_hours, 2),
        round(measures.over_slo / 60, 2),
        measures.rescales,
    )


def cases(words: list[str]) -> Iterator[tuple[str, str, int]]:
    """Yield the cases in whose names one of the words is; all of them without words."""
    for configuration in CONFIGURATIONS:
        for load in LOADS:
            for seed in SEEDS:
                if not words or any(word in name_of(configuration, load, seed) for word in words):
                    yield configuration, load, seed


def name_of(configuration: str, load: str, seed: int) -> str:
    """Return the key of a case in the file."""
    return f"{configuration} / {load} / {seed}"


def read_expected(path: Path = EXPECTED) -> dict[str, Decided]:
    """Read the file; empty where there is none."""
    if not path.exists():
        return {}
    return {name: Decided(**each) for name, each in json.loads(path.read_text(encoding="utf-8")).items()}


def main() -> int:
    """Compare or write; exit with 1 where a decision differs from the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only cases in whose names one of these is, such as 'slo / step'")
    parser.add_argument("--write", action="store_true", help="take what is decided now")
    parser.add_argument("--file", type=Path, default=EXPECTED, help="what was decided before")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    expected, chosen = read_expected(arguments.file), list(cases(arguments.words))
    found, different = dict(expected), 0
    with ProcessPoolExecutor(arguments.processes) as pool:
        for case, now in zip(chosen, pool.map(simulate_decisions, *zip(*chosen, strict=True)), strict=True):
            name = name_of(*case)
            before, found[name] = expected.get(name), now
            if before != now:
                different += 1
            print(f"{'same' if before == now else 'DIFFERENT'}  {name}: {_figures(before, now)}", flush=True)
    if arguments.write:
        rows = (f"{json.dumps(name)}: {json.dumps(asdict(each))}" for name, each in sorted(found.items()))
        arguments.file.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    print(f"{len(chosen)} days decided, {different} different")
    return 1 if different and not arguments.write else 0


def _figures(before: Decided | None, now: Decided) -> str:
    figures = f"{now.slot_hours} slot-hours, {now.late_minutes} min late, {now.rescales} rescales"
    if before is None or before == now:
        return figures
    return f"{figures} (before {before.slot_hours}, {before.late_minutes}, {before.rescales})"


if __name__ == "__main__":
    sys.exit(main())
