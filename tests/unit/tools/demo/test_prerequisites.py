from __future__ import annotations

from pathlib import Path

import pytest
from demo.prerequisites import java_version, lacking_room, missing_parts

from flink_cluster.distribution import RELEASES


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLINK_AUTOSCALER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def flink_is_cached(cache: Path) -> None:
    (cache / f"flink-{RELEASES['2.3']}").mkdir(parents=True)


def a_jdk(home: Path, *, version: str, tools: tuple[str, ...] = ("java", "javac")) -> None:
    (home / "bin").mkdir(parents=True)
    for tool in tools:
        (home / "bin" / tool).write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        (home / "bin" / tool).chmod(0o755)


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        pytest.param('openjdk version "17.0.12" 2024-07-16', 17, id="17"),
        pytest.param('openjdk version "21" 2023-09-19', 21, id="a first release"),
        pytest.param('java version "1.8.0_402"', 8, id="8 calls itself 1.8"),
        pytest.param('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1"', 17, id="after a greeting"),
        pytest.param("Segmentation fault", None, id="something else"),
    ],
)
def test_java_version_is_the_major_one(banner: str, version: int | None) -> None:
    assert java_version(banner) == version


@pytest.mark.usefixtures("flink_is_cached")
def test_nothing_is_missing_with_a_jdk_and_cached_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_jdk(tmp_path / "jdk", version="17.0.12")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))

    assert missing_parts("2.3") == []


@pytest.mark.usefixtures("flink_is_cached")
@pytest.mark.parametrize(
    ("version", "tools", "missing"),
    [
        pytest.param("17.0.12", (), ["a JDK 17", "javac"], id="no JDK"),
        pytest.param("17.0.12", ("java",), ["javac"], id="a JRE"),
        pytest.param("11.0.2", ("java", "javac"), ["Java 17 or later"], id="too old"),
    ],
)
def test_every_missing_part_comes_with_the_command_that_brings_it(
    version: str, tools: tuple[str, ...], missing: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_jdk(tmp_path / "jdk", version=version, tools=tools)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("PATH", "/nonexistent")

    found = missing_parts("2.3")

    assert all(part.what.startswith(start) for part, start in zip(found, missing, strict=True))
    assert {part.command for part in found} == {"apt-get install -y openjdk-17-jdk-headless"}


@pytest.mark.usefixtures("cache")
def test_network_is_missing_when_flink_is_not_cached_and_pip_reaches_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")

    found = missing_parts("2.3")

    assert [part.what.split(",")[0] for part in found] == ["a package index that pip can reach"]


def test_room_is_asked_for_where_the_cache_will_be(cache: Path) -> None:
    asked: list[str] = []

    def little_room(path: str) -> int:
        asked.append(path)
        return (1 << 30) - 1

    missing = lacking_room(little_room)

    assert asked == [str(cache.parent)]
    assert missing is not None
    assert "1 GB" in missing.what
