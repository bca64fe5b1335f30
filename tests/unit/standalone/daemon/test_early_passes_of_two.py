"""Early passes where two daemons share a database: those of the one that leads, whichever that is."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import anxious_policy
import pytest
from fake_flink import FakeFlink, chain
from watching.process import DaemonProcess

OPTIONS = {
    "autoscaler__standalone__state-store__type": "JDBC",
    "autoscaler__standalone__event-handler__type": "JDBC",
    "autoscaler__ha__enabled": "true",
    "autoscaler__ha__ttl": "10 s",
    "autoscaler__log__level": "info",
    "autoscaler__standalone__control-loop.interval": "7 s",
    "job__autoscaler__flink__rest-client__timeout": "1 s",
    "job__autoscaler__early-pass__delay": "5 s",
    "job__autoscaler__policy": anxious_policy.NAME,
}


def brought_forward(daemon: DaemonProcess) -> int:
    return len(daemon.lines("pass_brought_forward"))


def reasons(daemon: DaemonProcess) -> set[str]:
    """Return the codes of the reasons that the last pass has for the job; none before the first."""
    job = json.loads(daemon.page("/api/v1/job?job=main/orders"))
    return {each["code"] for each in job.get("reasons", ())}


def test_only_the_daemon_that_leads_has_early_passes_and_who_takes_over_has_them_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    anxious_policy.install(tmp_path)
    database = f"jdbc:sqlite:{tmp_path / 'shared.db'}"
    with FakeFlink() as flink, DaemonProcess(tmp_path, "first") as first:
        flink.add_job("orders", chain(sources=1, vertices=2, parallelism=2), start_ms=1, running_at_ms=1)
        first.configure({"main": flink.url}, autoscaler__standalone__jdbc__url=database, **OPTIONS)
        first.start()
        first.wait_for("leadership", lambda: first.lines("leadership_gained"))
        with DaemonProcess(tmp_path, "second", file=first.file) as second:
            second.start(wait=False)
            second.wait_for("a standby", lambda: second.lines("standing_by"))
            second.wait_for("a pass that asks for another", lambda: "ANXIOUS" in reasons(second))
            first.wait_for("an early pass", lambda: "EARLY_PASS" in reasons(first))
            of_the_standby = brought_forward(second)

            first.send(signal.SIGKILL)
            first.exit_code()
            second.wait_for("leadership", lambda: second.lines("leadership_gained"))
            second.wait_for("an early pass of the other one", lambda: "EARLY_PASS" in reasons(second))
            code = second.stop()

    assert brought_forward(first) >= 1
    assert of_the_standby == 0
    assert brought_forward(second) >= 1
    assert code == 0
