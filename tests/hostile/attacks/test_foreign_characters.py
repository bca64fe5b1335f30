"""What a job's author puts into a name or an option moves no cursor, hides nothing and turns nothing, anywhere."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from flink_autoscaler.standalone.cli.output import json_text
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, chain
from testkit.fakes.receiver import Receiver
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = pytest.mark.suite(name="hostile")

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj.exe\u2066\u200b"
OPTION = "job.autoscaler.utilization.target"


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as flink:
        job = flink.add_job(f"orders {EVIL}", chain(sources=1, vertices=2), start_ms=1, running_at_ms=1, obeys=True)
        job.vertices[1].name = f"work {EVIL}"
        job.configuration = {OPTION: EVIL}
        yield flink


def harmful(text: str) -> set[str]:
    """Return the characters of a text that a terminal or a reader must not get."""
    return {each for each in text if not each.isprintable() and each not in "\r\n\t"}


def without_colors(text: str) -> str:
    """Return what a program of ours wrote to a terminal without the colors that it has itself."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def on_terminal(*arguments: str, environment: dict[str, str]) -> str:
    """Run a command whose output and errors are a terminal, and return what it wrote."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "flink_autoscaler.standalone", *arguments]
    with subprocess.Popen(command, env=environment, stdout=slave, stderr=slave, stdin=subprocess.DEVNULL) as process:
        os.close(slave)
        written = b""
        while part := read(master):
            written += part
        process.wait(60)
    os.close(master)
    return written.decode(errors="replace")


def read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # its other end is closed
        return b""


@pytest.mark.guard
def test_no_output_of_a_daemon_has_what_a_job_wants_to_do_to_readers(tmp_path: Path, flink: FakeFlink) -> None:
    with Receiver() as receiver, DaemonProcess(tmp_path) as daemon:
        daemon.environment["no_proxy"] = "127.0.0.1"
        targets = {
            "autoscaler__notifications__targets__0__name": "audit",
            "autoscaler__notifications__targets__0__url": receiver.url,
        }
        daemon.configure({"main": flink.url}, **targets)
        daemon.start()
        (line,) = daemon.lines("http_listening")
        with httpx.Client(base_url=line["url"], timeout=20, trust_env=False) as client:
            jobs = wait_until("the job", lambda: client.get("/api/v1/jobs").json()["jobs"], 300)
            key = jobs[0]["job_key"]
            daemon.wait_for("a word about the option", lambda: "utilization.target" in daemon.text())
            pages = {path: client.get(path, params={"job": key}).text for path in ("/job", "/api/v1/job")}
            pages |= {path: client.get(path).text for path in ("/", "/events", "/api/v1/events", "/api/v1/jobs")}
        explained = on_terminal("explain", key, "--daemon-url", line["url"], environment=daemon.environment)
        documents = on_terminal("jobs", "--daemon-url", line["url"], "--json", environment=daemon.environment)
        log = daemon.text()
        told = [each.body.decode() for each in list(receiver.received)]

    found = {"log": log, "explain": without_colors(explained), "jobs": documents, "messages": "".join(told), **pages}
    assert {place: harmful(text) for place, text in found.items() if harmful(text)} == {}
    assert "because" in explained


def test_console_log_and_once_have_nothing_that_moves_a_cursor(tmp_path: Path, flink: FakeFlink) -> None:
    environment = {
        **os.environ,
        "STATE_DIRECTORY": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    arguments = ["--set", f"autoscaler.clusters.0.url={flink.url}", "--set", "autoscaler.clusters.0.name=main"]

    shown = on_terminal("once", *arguments, "--dry-run", environment=environment)
    document = on_terminal("once", *arguments, "--dry-run", "--json", environment=environment)
    looked = on_terminal("once", "--jobmanager-url", flink.url, environment=environment)

    for text in (shown, document, looked):
        assert "utilization.target" in text or "orders" in text
        assert harmful(without_colors(text)) == set()


def test_a_name_with_line_ends_writes_no_line_of_its_own(tmp_path: Path) -> None:
    forged = "x\n2026-01-01T00:00:00Z [error    ] forged"
    with FakeFlink() as flink, DaemonProcess(tmp_path) as daemon:
        job = flink.add_job("orders", chain(sources=1, vertices=2), start_ms=1, running_at_ms=1, obeys=True)
        job.configuration = {OPTION: forged}
        daemon.configure({"main": flink.url}, autoscaler__log__format="console")
        daemon.start()
        daemon.wait_for("a word about the option", lambda: "forged" in daemon.text())
        lines = daemon.text().splitlines()

    assert [line for line in lines if line.startswith("2026-01-01T00:00:00Z")] == []


def test_json_on_a_terminal_is_read_as_it_was() -> None:
    assert harmful(json_text({EVIL: EVIL})) == set()
    assert json.loads(json_text({EVIL: EVIL + "\n\U000e0001"})) == {EVIL: EVIL + "\n\U000e0001"}
