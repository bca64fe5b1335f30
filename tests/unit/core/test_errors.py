from __future__ import annotations

import pytest

from flink_autoscaler.core.errors import AutoscalerError, ConfigError, MissingMetricError
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.stores.sql.database.failures import LeaseLostError


class _ForeignError(AutoscalerError):
    """Of another module."""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(ConfigError("wrong"), "CONFIG", id="as it is"),
        pytest.param(MissingMetricError("a", "busy"), "MISSINGMETRIC", id="of a kind of its own"),
        pytest.param(
            ValueParseError("job.autoscaler.enabled", "perhaps", "true, false"), "CONFIG", id="of the options"
        ),
        pytest.param(LeaseLostError("gone"), "STORE", id="of a database"),
        pytest.param(_ForeignError("else"), "AUTOSCALER", id="of nobody's kind"),
    ],
)
def test_code_is_a_word_that_has_a_meaning(error: AutoscalerError, code: str) -> None:
    assert error.code == code
