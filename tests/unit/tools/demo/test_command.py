from __future__ import annotations

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
