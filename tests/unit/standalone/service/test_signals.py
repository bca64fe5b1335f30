from __future__ import annotations

import os
import signal
import subprocess
import sys

from flink_autoscaler.standalone.service.signals import DaemonRequest, SignalQueue, handle_signals


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def test_signal_to_stop_is_the_end() -> None:
    with handle_signals(reloads=True) as inbox:
        send(signal.SIGTERM)

        assert inbox.get() == signal.SIGTERM


def test_hang_up_is_a_wish_to_reload() -> None:
    with handle_signals(reloads=True) as inbox:
        send(signal.SIGHUP)

        assert inbox.get() is DaemonRequest.RELOAD


def test_one_reading_answers_all_wishes_before_it() -> None:
    with handle_signals(reloads=True) as inbox:
        for _ in range(100):
            send(signal.SIGHUP)
        send(signal.SIGTERM)

        assert [inbox.get(), inbox.get()] == [DaemonRequest.RELOAD, signal.SIGTERM]


def test_a_wish_during_a_reading_is_another_one() -> None:
    inbox = SignalQueue()
    inbox.put_reload()
    inbox.get()

    inbox.put_reload()

    assert inbox.get() is DaemonRequest.RELOAD


def test_handlers_and_mask_are_put_back() -> None:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    with handle_signals(reloads=True):
        pass

    assert [signal.getsignal(number) for number in numbers] == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask


def test_hang_ups_before_and_after_the_daemon_do_not_end_the_process() -> None:
    program = """
import os, signal
from flink_autoscaler.standalone.service.signals import block_sighup, handle_signals
block_sighup()
os.kill(os.getpid(), signal.SIGHUP)
with handle_signals(reloads=True) as inbox:
    print(inbox.get())
os.kill(os.getpid(), signal.SIGHUP)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300, check=False
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "DaemonRequest.RELOAD\n", "")
