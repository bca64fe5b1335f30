from __future__ import annotations

from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.spark.java import require_java


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    return tmp_path


def install(java_home: Path, version: str) -> None:
    java = java_home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_java_that_spark_runs_on_is_accepted(java_home: Path, version: str) -> None:
    install(java_home, version)

    require_java()


@pytest.mark.parametrize(("version", "name"), [("1.8.0_402", "Java 8"), ("11.0.2", "Java 11")])
def test_old_java_is_refused_with_advice(java_home: Path, version: str, name: str) -> None:
    install(java_home, version)

    with pytest.raises(ConfigError, match=rf"{name}\. .*Java 17 or later.*autoscaler\.engine\.kind: inline"):
        require_java()


def test_java_home_without_java_is_refused(java_home: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be run"):
        require_java()


def test_missing_java_is_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ConfigError, match=r"no java on the PATH.*inline"):
        require_java()
