from __future__ import annotations

from pathlib import Path

import pytest
from demo.command import main


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        pytest.param({"DEMO_SECONDS": "soon"}, "whole number", id="no length"),
        pytest.param({"DEMO_SECONDS": "5"}, "between", id="too short"),
        pytest.param({"DEMO_ENGINE": "flink"}, "spark or inline", id="no engine"),
    ],
)
def test_unusable_request_is_refused_before_anything_starts(
    environ: dict[str, str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(environ)

    assert status == 2
    assert told in capsys.readouterr().err


def test_missing_parts_are_told_with_their_commands_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    status = main({})

    told = capsys.readouterr().err
    assert status == 1
    assert "missing: a JDK 17" in told
    assert "apt-get install -y openjdk-17-jdk-headless" in told
