from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from flink_autoscaler.pipeline.spark.executors import pack_ours
from flink_autoscaler.pipeline.spark.supply import reason_of

# The way of an executor: the libraries are there, our own code is not.
PROGRAM = """
import sys
sys.path[1:1] = sys.argv[1:]
import flink_autoscaler.pipeline.spark.task as task
from importlib.metadata import entry_points
print(task.__file__)
print(sorted(entry.name for entry in entry_points(group="flink_autoscaler.resource_checks")))
"""


def test_archive_is_all_that_a_pass_needs_beside_the_libraries(tmp_path: Path) -> None:
    archive = pack_ours(tmp_path / "ours.zip")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}

    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM, str(archive), sysconfig.get_path("purelib")],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    [ours, plugins] = done.stdout.splitlines()
    assert ours.startswith(str(archive))
    assert plugins == str(sorted(entry.name for entry in entry_points(group="flink_autoscaler.resource_checks")))


def test_archive_has_every_file_once_and_nothing_compiled(tmp_path: Path) -> None:
    names = zipfile.ZipFile(pack_ours(tmp_path / "ours.zip")).namelist()

    assert len(names) == len(set(names))
    assert not [name for name in names if name.endswith((".so", ".pyc"))]


@pytest.mark.parametrize(
    ("text", "library"),
    [
        pytest.param("Job aborted:\n  at x\nModuleNotFoundError: No module named 'httpx'", "httpx", id="a library"),
        pytest.param("No module named 'pyarrow.compute'", "pyarrow", id="a part of one"),
    ],
)
def test_library_that_executors_lack_is_one_sentence_with_the_ways_out(text: str, library: str) -> None:
    told = reason_of(RuntimeError(text))

    assert told.startswith(f"the Python of Spark's executors lacks {library}: install ")
    assert "requirements/spark.txt" in told
    assert "--archives" in told
    assert "\n" not in told
