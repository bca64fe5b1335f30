"""The cache that downloads and compiled jobs go to."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testkit.clusters.flink.cache import cache_directory, cached


def make_one_file(into: Path) -> None:
    (into / "file").write_text("made")


def fail(into: Path) -> None:
    make_one_file(into)
    raise RuntimeError("in the middle")


def test_cached_makes_what_is_not_there(tmp_path: Path) -> None:
    made = cached(tmp_path / "target", make_one_file)

    assert (made / "file").read_text() == "made"


def test_cached_keeps_what_is_there(tmp_path: Path) -> None:
    cached(tmp_path / "target", make_one_file)

    assert cached(tmp_path / "target", fail) == tmp_path / "target"


def test_cached_leaves_nothing_when_making_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="in the middle"):
        cached(tmp_path / "target", fail)

    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_cached_makes_once_when_asked_at_once(tmp_path: Path) -> None:
    made: list[Path] = []

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: cached(tmp_path / "target", made.append), range(8)))

    assert len(made) == 1


def test_cache_directory_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_AUTOSCALER_CACHE", str(tmp_path))

    assert cache_directory() == tmp_path
