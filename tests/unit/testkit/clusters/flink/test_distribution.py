"""Getting Flink's jars."""

from pathlib import Path

import pytest

from testkit.clusters.flink.distribution import distribution
from testkit.clusters.flink.errors import HarnessError


def test_distribution_names_the_known_versions_when_it_does_not_know_one() -> None:
    with pytest.raises(HarnessError, match=r"'1\.4' is not known; known: 1\.20, 2\.3"):
        distribution("1.4")


def test_distribution_tells_what_is_missing_when_the_index_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINK_AUTOSCALER_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")

    with pytest.raises(HarnessError, match="pip needs to reach a package index"):
        distribution("2.3")

    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
