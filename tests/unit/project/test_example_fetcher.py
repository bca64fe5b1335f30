"""The example of a fetcher, installed and used as an outside author would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.flink import FakeFlink, chain

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "fetcher"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(target), str(EXAMPLE)], check=True, cwd=target)
    return target


@pytest.fixture
def jobmanagers() -> Iterator[tuple[FakeFlink, FakeFlink]]:
    with FakeFlink() as one, FakeFlink() as two:
        one.add_job("orders", chain(parallelism=2), job_id="1" * 32)
        two.add_job("payments", chain(parallelism=3), job_id="2" * 32)
        yield one, two


@pytest.fixture
def config(jobmanagers: tuple[FakeFlink, FakeFlink], tmp_path: Path) -> Path:
    inventory = tmp_path / "jobmanagers.txt"
    inventory.write_text("\n".join(flink.url for flink in jobmanagers))
    cluster = {"name": "fleet", "type": "inventory", "parameters": {"file": str(inventory)}}
    file = tmp_path / "autoscaler.yaml"
    # JSON is YAML.
    file.write_text(json.dumps({"autoscaler": {"clusters": [cluster], "engine.kind": "inline"}}))
    return file


def call(site: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Call the command line in a process that has the fetcher installed, or not."""
    path = os.pathsep.join(map(str, [site] if site else []))
    command = [sys.executable, "-m", "flink_autoscaler.standalone", *arguments]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": path}
    )


def listed(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = json.loads(result.stdout)["jobs"]
    return jobs


def test_its_jobs_are_listed_each_from_its_own_jobmanager(site: Path, config: Path) -> None:
    result = call(site, "jobs", "--config", str(config), "--json")

    assert result.returncode == 0, result.stderr
    assert [(job["job_key"], job["parallelism"]) for job in listed(result)] == [
        ("fleet/" + "1" * 32, 2),
        ("fleet/" + "2" * 32, 3),
    ]


def test_a_part_that_is_not_listed_is_told_and_the_others_are_listed(
    site: Path, config: Path, jobmanagers: tuple[FakeFlink, FakeFlink]
) -> None:
    jobmanagers[0].pause()

    result = call(site, "jobs", "--config", str(config), "--json")

    assert result.returncode == 1
    assert [job["job_key"] for job in listed(result)] == ["fleet/" + "2" * 32]
    assert f"error: {jobmanagers[0].url}: " in result.stderr


def test_its_jobs_are_looked_after(site: Path, config: Path) -> None:
    result = call(site, "once", "--config", str(config), "--set", "job.autoscaler.enabled=true", "--json")

    (cluster,) = json.loads(result.stdout)["clusters"]
    assert result.returncode == 0, result.stderr
    assert [job["phase"] for job in cluster["jobs"]] == ["collecting", "collecting"]


def test_its_own_mistake_is_an_error_of_the_configuration(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "autoscaler.yaml"
    file.write_text("autoscaler.clusters: [{name: fleet, type: inventory}]")

    result = call(site, "jobs", "--config", str(file))

    assert result.returncode == 1
    assert result.stderr.startswith("error: cluster fleet: cluster 'fleet': parameters.file is not set")


def test_what_is_not_installed_is_unknown(config: Path) -> None:
    result = call(None, "check-config", "--config", str(config))

    assert result.returncode == 2
    assert "no plug-in 'inventory' in flink_autoscaler.fetchers; known: flink, yarn" in result.stderr
