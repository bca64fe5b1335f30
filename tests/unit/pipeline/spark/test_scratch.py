"""Folders of processes among temporary files: whose owner was killed is removed, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flink_autoscaler.pipeline.spark.scratch import PREFIX, Scratch

OWNER = """
import sys
from pathlib import Path
from flink_autoscaler.pipeline.spark.scratch import Scratch

scratch = Scratch(Path(sys.argv[1]))
(scratch.path / "blocks").mkdir()
(scratch.path / "blocks" / "one").write_text("x")
print(scratch.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Return a process that has a folder, and does not end by itself."""
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def folder_of(owner: subprocess.Popen[str]) -> Path:
    assert owner.stdout is not None
    return Path(owner.stdout.readline().strip())


def test_folder_is_new_closed_to_others_and_removed_at_the_end(tmp_path: Path) -> None:
    with Scratch(tmp_path) as scratch:
        assert scratch.path.parent == tmp_path
        assert scratch.path.stat().st_mode & 0o777 == 0o700
        assert list(scratch.path.iterdir()) == []

    scratch.close()
    assert list(tmp_path.iterdir()) == []


def test_folder_of_a_process_that_was_killed_is_removed_by_the_next_one(
    owner: subprocess.Popen[str], tmp_path: Path
) -> None:
    left = folder_of(owner)
    owner.kill()
    owner.wait()
    assert (left / "blocks" / "one").exists()

    with Scratch(tmp_path) as scratch:
        assert list(tmp_path.iterdir()) == [scratch.path]


def test_folder_of_a_process_that_lives_stays(owner: subprocess.Popen[str], tmp_path: Path) -> None:
    used = folder_of(owner)

    with Scratch(tmp_path), Scratch(tmp_path):
        assert (used / "blocks" / "one").exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    valued = tmp_path / "valued"
    valued.mkdir(mode=0o700)
    (valued / "file").touch()
    parent = tmp_path / "tmp"
    left = parent / f"{PREFIX}left"
    left.mkdir(parents=True, mode=0o700)
    (left / "inside").symlink_to(valued)
    (parent / f"{PREFIX}link").symlink_to(valued)

    Scratch(parent).close()

    assert (valued / "file").exists()
    assert [path.name for path in parent.iterdir()] == [f"{PREFIX}link"]


def test_what_is_open_to_others_or_no_folder_stays(tmp_path: Path) -> None:
    opened = tmp_path / f"{PREFIX}open"
    opened.mkdir()
    opened.chmod(0o777)
    file = tmp_path / f"{PREFIX}file"
    file.touch()
    named = tmp_path / "flink-autoscaler-spark-x"
    named.mkdir(mode=0o700)

    Scratch(tmp_path).close()

    assert set(tmp_path.iterdir()) == {opened, file, named}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_folder_of_another_user_stays(tmp_path: Path) -> None:
    foreign = tmp_path / f"{PREFIX}foreign"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, 10001, 10001)

    Scratch(tmp_path).close()

    assert foreign.exists()
