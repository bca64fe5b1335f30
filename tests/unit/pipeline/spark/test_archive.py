from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from flink_autoscaler.pipeline.spark.archive import LIBRARIES, pack_libraries, pack_ours
from flink_autoscaler.pipeline.spark.executors import Executor, lacking, minor
from flink_autoscaler.pipeline.spark.supply import SparkLostError

# The way of an executor: pyarrow is linked, nothing else of site-packages can be imported.
PROGRAM = """
import sys
sys.path[1:1] = sys.argv[1:]
import flink_autoscaler.pipeline.spark.task
from importlib.metadata import entry_points
import certifi, httpx
print(httpx.__file__)
print(sorted(entry.name for entry in entry_points(group="flink_autoscaler.resource_checks")))
"""

GOOD = Executor("host", "/usr/bin/python3", "4.1.0", "18.0.0", ())


def test_archives_are_all_that_a_pass_needs_beside_pyarrow(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    for package in ("pyarrow", "numpy"):
        (site / package).symlink_to(Path(__import__(package).__file__ or "").parent)
    archives = [pack_libraries(tmp_path / "libraries.zip"), pack_ours(tmp_path / "ours.zip")]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}

    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM, *map(str, archives), str(site)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    [library, plugins] = done.stdout.splitlines()
    assert library.startswith(str(archives[0]))
    assert plugins == str(sorted(entry.name for entry in entry_points(group="flink_autoscaler.resource_checks")))


def test_files_that_were_trimmed_from_an_installation_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = tmp_path / "stamina-99.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: stamina\nVersion: 99\n")
    (tmp_path / "stamina.py").touch()
    (described / "RECORD").write_text("stamina.py,,\nstamina/tests/__init__.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    names = zipfile.ZipFile(pack_libraries(tmp_path / "libraries.zip")).namelist()

    assert "stamina.py" in names
    assert "stamina/tests/__init__.py" not in names


def test_archives_have_every_file_once_and_nothing_compiled(tmp_path: Path) -> None:
    for archive in (pack_libraries(tmp_path / "libraries.zip"), pack_ours(tmp_path / "ours.zip")):
        names = zipfile.ZipFile(archive).namelist()

        assert len(names) == len(set(names))
        assert not [name for name in names if name.endswith((".so", ".pyc"))]


def test_executors_that_have_all_lack_nothing() -> None:
    assert lacking([GOOD], spark_version="4.1.2") == set()


def test_what_any_executor_lacks_is_shipped() -> None:
    other = Executor("other", "/usr/bin/python3", "4.1.0", "19.0.0", tuple(LIBRARIES.values())[:2])

    assert lacking([GOOD, other], spark_version="4.1.0") == set(other.missing)


@pytest.mark.parametrize(
    ("executor", "problem"),
    [
        pytest.param(
            Executor("node7", "/opt/python", "4.1.0", None, ()), "/opt/python on node7, has no pyarrow", id="no pyarrow"
        ),
        pytest.param(
            Executor("node7", "/opt/python", "4.1.0", "12.0.1", ()), "has pyarrow 12.0.1: install", id="old pyarrow"
        ),
        pytest.param(
            Executor("node7", "/opt/python", "3.5.1", "18.0.0", ()),
            "node7 run PySpark 3.5.1, the driver Spark 4.1.0",
            id="another Spark",
        ),
    ],
)
def test_executor_that_cannot_do_the_work_is_named_with_the_fix(executor: Executor, problem: str) -> None:
    with pytest.raises(SparkLostError, match=problem):
        lacking([GOOD, executor], spark_version="4.1.0")


def test_versions_are_compared_by_their_first_two_numbers() -> None:
    assert [minor(text) for text in ("4.1.0", "4.1.0-SNAPSHOT", "26.0.1", "4")] == [(4, 1), (4, 1), (26, 0), (4,)]
