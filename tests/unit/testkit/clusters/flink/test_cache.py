"""The cache that downloads and compiled jobs go to."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testkit.clusters.flink.cache import make_once


def make_one_file(into: Path) -> None:
    (into / "file").write_text("made")


def fail(into: Path) -> None:
    make_one_file(into)
    raise RuntimeError("in the middle")


def test_cached_leaves_nothing_when_making_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="in the middle"):
        make_once(tmp_path / "target", fail)

    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_cached_makes_once_when_asked_at_once(tmp_path: Path) -> None:
    made: list[Path] = []

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: make_once(tmp_path / "target", made.append), range(8)))

    assert len(made) == 1
