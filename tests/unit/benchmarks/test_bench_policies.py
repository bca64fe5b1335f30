"""The benchmark of policies, as a person runs it: its tables, what it says beside them, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def benchmark(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it for two hours of each shape."""
    given = ("--days", str(2 / 24), "--cache", str(cache), "--markdown", "--jobs-in-parallel", "1", *arguments)
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_policies", *given],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def rows(text: str) -> dict[str, list[str]]:
    """Return the cells of the only table by policy."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return {line[0]: line[1:] for line in lines}


def test_benchmark_divides_by_an_oracle_that_it_works_out_once(tmp_path: Path) -> None:
    asked = ("--shapes", "trace:elb", "--policies", "capacity", "varga", "--seeds", "2")

    first, again = benchmark(tmp_path, *asked), benchmark(tmp_path, *asked)

    assert (first.returncode, again.returncode) == (0, 0), first.stderr
    table = rows(first.stdout)
    assert "## trace:elb: 0.0833333 days, 2 seeds, outages of 60 s" in first.stdout
    assert table["oracle"][1] == "1.00"
    ratio = float(table["capacity"][0]) / float(table["oracle"][0])
    assert float(table["capacity"][1]) == pytest.approx(ratio, abs=0.02)
    assert [first.stderr.count(text) for text in ("worked out", "there already")] == [2, 0]
    assert [again.stderr.count(text) for text in ("worked out", "there already")] == [0, 2]
    assert "[6/6]" in first.stderr
    assert again.stdout == first.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--shapes", "ofice"), "no load is ofice; known: office week-sine", id="shape"),
        pytest.param(("--shapes", "trace:IBM"), "no recorded load is trace:IBM; known: trace:", id="trace"),
        pytest.param(("--policies", "ds3"), "ds3", id="policy"),
    ],
)
def test_benchmark_refuses_names_that_it_does_not_know(
    tmp_path: Path, arguments: tuple[str, str], message: str
) -> None:
    answer = benchmark(tmp_path, *arguments)

    assert answer.returncode == 2
    assert message in answer.stderr
    assert list(tmp_path.iterdir()) == []
