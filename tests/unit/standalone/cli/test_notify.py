"""``notify --test``: one marked message to each target, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flink_autoscaler.standalone.cli.main import app
from testkit.builders.commands import Call, Said, commands
from testkit.fakes.receiver import Receiver


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with commands(app, capsys, monkeypatch) as call:
        yield call


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def notify(call: Call, urls: dict[str, str], folder: Path, *arguments: str) -> Said:
    targets = [
        {"name": name, "url": url, "type": "webhook" if url.startswith("http") else "apprise", "timeout": "60 s"}
        for name, url in urls.items()
    ]
    file = folder / "autoscaler.yaml"
    file.write_text(json.dumps({"autoscaler.notifications": {"targets": targets}} if targets else {}))
    return call("notify", "--config", file, *arguments)


def test_every_target_gets_one_marked_message(call: Call, receiver: Receiver, tmp_path: Path) -> None:
    urls = {"audit": f"{receiver.url}/s3cr3t", "chat": f"json://127.0.0.1:{receiver.port}/s3cr3t"}

    said = notify(call, urls, tmp_path, "--test")

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[-1] == "2 of 2 sent"
    assert "s3cr3t" not in said.stdout
    assert len(receiver.received) == 2
    told = b"".join(received.body for received in receiver.received)
    assert told.count(b"This is a test of notifications") == 2
    assert b"flink-autoscaler.event.NotificationTest" in told


def test_a_target_that_fails_is_told_and_is_exit_code_1(call: Call, receiver: Receiver, tmp_path: Path) -> None:
    receiver.answers, receiver.text = [404], b"no hook s3cr3t"

    said = notify(call, {"audit": f"{receiver.url}/s3cr3t", "gone": "http://127.0.0.1:1/s3cr3t"}, tmp_path, "--test")

    assert said.returncode == 1
    assert "HTTP 404: 'no hook ******'" in said.stdout
    assert "connection refused" in said.stdout
    assert said.stdout.splitlines()[-1] == "0 of 2 sent"
    assert "s3cr3t" not in said.stdout + said.stderr


def test_one_target_can_be_chosen_and_the_result_be_json(call: Call, receiver: Receiver, tmp_path: Path) -> None:
    urls = {"audit": receiver.url, "other": "http://127.0.0.1:1/"}

    said = notify(call, urls, tmp_path, "--test", "--target", "audit", "--json")

    (target,) = json.loads(said.stdout)["targets"]
    assert said.returncode == 0
    assert (target["name"], target["is_sent"], target["error"]) == ("audit", True, None)


@pytest.mark.parametrize(
    ("urls", "arguments", "expected"),
    [
        pytest.param({"audit": "http://127.0.0.1:1"}, ("--target", "audti"), "did you mean 'audit'", id="unknown name"),
        pytest.param({}, (), "there is nobody to tell", id="no targets"),
    ],
)
def test_what_cannot_be_tried_is_a_mistake(
    call: Call, tmp_path: Path, urls: dict[str, str], arguments: tuple[str, ...], expected: str
) -> None:
    said = notify(call, urls, tmp_path, "--test", *arguments)

    assert said.returncode == 2
    assert expected in said.stderr


def test_without_test_nothing_is_sent(call: Call, receiver: Receiver, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="notify --test sends one message"):
        notify(call, {"audit": receiver.url}, tmp_path)

    assert receiver.received == []
