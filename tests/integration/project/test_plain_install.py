"""``pip install flink-autoscaler`` without extras is a working program that evaluates in its own process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pip_settings import read_settings

from testkit.fakes.flink import FakeFlink, chain

PROJECT = Path(__file__).parents[3]

Program = Callable[..., subprocess.CompletedProcess[str]]


def done(*command: object, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.fixture(scope="module")
def uv() -> str:
    """Return uv, of this environment or of the machine."""
    own = Path(sys.executable).with_name("uv")
    found = str(own) if own.exists() else shutil.which("uv")
    if found is None:
        pytest.skip("uv is not installed")
    return found


@pytest.fixture(scope="module")
def installed(uv: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an environment that has the wheel and what it needs, nothing else."""
    into = tmp_path_factory.mktemp("plain")
    environment = {**os.environ, **read_settings(Path(sys.executable)).for_uv(os.environ)}
    steps = [
        (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", into),
        (uv, "venv", "--quiet", "--python", sys.executable, into / "venv"),
    ]
    for step in steps:
        answer = done(*step, environment=environment)
        assert answer.returncode == 0, answer.stderr
    [wheel] = into.glob("*.whl")
    answer = done(uv, "pip", "install", "--quiet", "--python", into / "venv", wheel, environment=environment)
    assert answer.returncode == 0, answer.stderr
    return into / "venv"


@pytest.fixture
def program(installed: Path, tmp_path: Path) -> Program:
    """Return what runs the installed program, without anything of this process' environment."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environment = {**kept, "HOME": str(tmp_path), "STATE_DIRECTORY": str(tmp_path)}
    return lambda *arguments: done(installed / "bin" / "flink-autoscaler", *arguments, environment=environment)


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as flink:
        flink.add_job("orders", chain(vertices=2, parallelism=3))
        yield flink


@pytest.fixture
def inline(flink: FakeFlink, tmp_path: Path) -> Path:
    """Return a configuration that evaluates in the daemon's process."""
    file = tmp_path / "autoscaler.yaml"
    cluster = f"clusters: [{{name: main, url: '{flink.url}'}}]"
    file.write_text(f"autoscaler:\n  {cluster}\n  engine: {{kind: inline}}\njob.autoscaler.enabled: true\n")
    return file


def test_nothing_of_spark_is_installed(installed: Path) -> None:
    names = {each.name.partition("-")[0] for each in installed.glob("lib/python3*/site-packages/*.dist-info")}

    assert "flink_autoscaler" in names
    assert not {"pyspark", "py4j", "pyarrow", "pandas", "numpy"} & names


def test_help_and_version_are_told(program: Program) -> None:
    assert "check-config" in program("--help").stdout
    assert program("--version").stdout.strip().endswith("0.2.0")


def test_configuration_is_checked(program: Program, inline: Path) -> None:
    answer = program("check-config", "--config", inline)

    assert (answer.returncode, answer.stderr) == (0, "")
    assert "autoscaler.engine.kind" in answer.stdout


def test_one_pass_over_a_cluster_is_done(program: Program, inline: Path) -> None:
    answer = program("once", "--config", inline, "--json")

    assert answer.returncode == 0, answer.stderr
    [cluster] = json.loads(answer.stdout)["clusters"]
    assert (cluster["engine"]["engine"], len(cluster["jobs"])) == ("inline", 1)


@pytest.mark.parametrize("command", ["run", "check-config"])
def test_spark_where_it_is_not_installed_ends_the_start_with_the_way_out(program: Program, command: str) -> None:
    answer = program(command, "--set", "autoscaler.clusters.0.name=a", "--set", "autoscaler.clusters.0.url=http://a")

    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
    assert "pip install 'flink-autoscaler[spark]', or set autoscaler.engine.kind: inline" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        pytest.param(("report", "--path", "/tmp", "--output", "report.html"), "spark", id="report"),
        pytest.param(("backtest", "--workload", "step", "--days", "1"), "history", id="backtest"),
        pytest.param(("history", "info", "--path", "/tmp"), "history", id="history"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(program: Program, arguments: tuple[str, ...], extra: str) -> None:
    answer = program(*arguments)

    assert answer.returncode == 2
    assert f"pip install 'flink-autoscaler[{extra}]'" in answer.stderr
    assert "Traceback" not in answer.stderr
