"""Where the password of the database comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.ha.databases import database_settings
from flink_autoscaler.standalone.settings.schema.settings import StandaloneSettings

URL = "jdbc:postgresql://h/d"


def reached(environment: dict[str, str], **options: Any) -> str | None:
    return database_settings(StandaloneSettings(jdbc_url=URL, **options), environment).password


@pytest.mark.parametrize(
    ("environment", "options", "expected"),
    [
        pytest.param({}, {}, None, id="none"),
        pytest.param({"JDBC_PWD": "a"}, {}, "a", id="variable"),
        pytest.param(
            {"JDBC_PWD": "a", "OTHER": "b"}, {"jdbc_password_env_variable": "OTHER"}, "b", id="named variable"
        ),
    ],
)
def test_the_password_comes_from_the_environment(
    environment: dict[str, str], options: dict[str, str], expected: str | None
) -> None:
    assert reached(environment, **options) == expected


@pytest.mark.parametrize("content", ["s3cret", "s3cret\n", "s3cret\r\nsecond line"])
def test_the_first_line_of_the_file_goes_before_the_environment(tmp_path: Path, content: str) -> None:
    (tmp_path / "password").write_text(content)

    assert reached({"JDBC_PWD": "a"}, jdbc_password_file=str(tmp_path / "password")) == "s3cret"


@pytest.mark.parametrize("content", [None, "", "\nsecond line"], ids=["missing", "empty", "empty line"])
def test_a_file_without_a_password_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "password").write_text(content)

    with pytest.raises(ConfigError, match=r"jdbc\.password-file: .*password") as raised:
        reached({}, jdbc_password_file=str(tmp_path / "password"))

    assert "second" not in str(raised.value)
