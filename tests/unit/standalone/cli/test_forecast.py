"""``forecast build`` as users run it, as far as it needs no Spark."""

from __future__ import annotations

import os

import pytest

from flink_autoscaler.standalone.cli.forecast import app


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(["--history", "nowhere.parquet"], "jdbc.url is not set", id="no database"),
        pytest.param(["--dry-run"], "which history? Give --history, or set autoscaler.history.path", id="no history"),
        pytest.param(["--dry-run", "--history", "a", "--asof", "soon"], "--asof 'soon': expected", id="no instant"),
    ],
)
def test_build_says_what_is_missing(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.startswith(("AUTOSCALER", "FLINK")):
            monkeypatch.delenv(name)

    code = app(["build", *arguments], standalone_mode=False)

    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert problem in said.err
