"""What is made of the exceptions of libraries."""

from __future__ import annotations

import pytest

from flink_autoscaler.clients.http.failures import is_transient, wrapped
from flink_autoscaler.core.errors import ConnectError


@pytest.mark.parametrize("length", [1, 2])
def test_errors_that_cause_each_other_are_looked_at_once(length: int) -> None:
    errors = [OSError(f"no {number}") for number in range(length)]
    for number, error in enumerate(errors):
        error.__cause__ = errors[(number + 1) % length]

    found = wrapped(errors[0], "GET x", is_tls_untried=False, has_certificate=False)

    assert isinstance(found, ConnectError)
    found.__cause__ = errors[0]
    assert is_transient(found)
