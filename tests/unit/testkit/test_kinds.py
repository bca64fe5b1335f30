"""What a test starts is found out from its file."""

from __future__ import annotations

from pathlib import Path

from testkit.kinds import names_that_start

FILE = """
import subprocess
import pytest

def call(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words)

def parsed(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout

@pytest.fixture
def daemon():
    with DaemonProcess() as process:
        yield process

def test_by_a_function(): assert parsed(call("true"))
def test_by_a_fixture(daemon): assert daemon
def test_of_a_text(): assert parsed(None)
class TestInAClass:
    def test_it(self): subprocess.Popen(["true"])
"""


def test_functions_and_fixtures_on_the_way_to_a_process_are_found(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(FILE)

    assert names_that_start(file) == {
        "call",
        "daemon",
        "test_by_a_function",
        "test_by_a_fixture",
        "test_it",
        "TestInAClass",
    }


def test_a_file_that_starts_nothing_has_none(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text("def test_it(): pass\n")

    assert names_that_start(file) == frozenset()
