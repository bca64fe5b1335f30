from __future__ import annotations

import signal

import pytest
from demo.stop_signals import StoppedError, StopSignals


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 130, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, 143, id="SIGTERM"),
        pytest.param(signal.SIGHUP, 129, id="the terminal was closed"),
    ],
)
def test_first_signal_ends_the_demo_with_the_usual_status(number: int, code: int) -> None:
    with StopSignals(), pytest.raises(StoppedError) as stopped:
        signal.raise_signal(number)

    assert stopped.value.code == code


def test_signal_does_not_disturb_tidying_up() -> None:
    with StopSignals() as signals:
        signals.tidy_up()

        signal.raise_signal(signal.SIGINT)


def test_handlers_are_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)

    with StopSignals():
        during = signal.getsignal(signal.SIGINT)

    assert during != before
    assert signal.getsignal(signal.SIGINT) == before
