"""Finding a JDK."""

from pathlib import Path

import pytest

from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.java import tool


def an_executable(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)
    return path


def test_tool_prefers_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = an_executable(tmp_path / "home" / "bin" / "javac")
    other = an_executable(tmp_path / "other" / "javac")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(other.parent))

    assert tool("javac") == wanted


def test_tool_asks_for_a_jdk_when_there_is_only_a_jre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = an_executable(tmp_path / "jre" / "java")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(java.parent))

    assert tool("java") == java
    with pytest.raises(HarnessError, match="install a JDK"):
        tool("javac")
