"""The guide's example runs, and links lead somewhere."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.core import ports
from testkit.contracts.visible_names import texts

PROJECT = Path(__file__).parents[3]
PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)[^)]*\)")
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

JOB_ID = "0" * 32
ANSWERS: dict[str, object] = {
    "/jobs/overview": {
        "jobs": [
            {
                "jid": JOB_ID,
                "name": "orders",
                "state": "RUNNING",
                "start-time": 1,
                "end-time": -1,
                "last-modification": 1,
                "tasks": {"total": 2, "running": 1, "finished": 0},
            },
            {
                "jid": "c" * 32,
                "name": "canceled-long-ago",
                "state": "CANCELED",
                "start-time": 1,
                "end-time": 2,
                "last-modification": 2,
                "tasks": {"total": 2, "running": 0, "finished": 0, "canceled": 2},
            },
        ]
    },
    "/taskmanagers": {"taskmanagers": []},
    f"/jobs/{JOB_ID}/jobmanager/config": [{"key": "jobmanager.scheduler", "value": "adaptive"}],
}


class JobManager(BaseHTTPRequestHandler):
    """Answers for a cluster with a job that is still being deployed, and one that was canceled."""

    def do_GET(self) -> None:
        answer = ANSWERS.get(self.path)
        body = json.dumps({"errors": ["Not found."]} if answer is None else answer).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@pytest.fixture
def cluster_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), JobManager) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_example_of_embedding_looks_after_the_jobs_of_a_cluster(
    cluster_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [example] = PYTHON_BLOCK.findall((PROJECT / "docs" / "guide" / "embedding.md").read_text())
    monkeypatch.setenv("FLINK_URL", cluster_url)
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(compile(example, "embedding.md", "exec"), namespace)

    namespace["one_pass"]()
    namespace["close"]()

    said = capsys.readouterr().out
    assert "\norders not_running NOT_RUNNING " in f"\n{said}"
    assert "canceled-long-ago" not in said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = [page.parent / link for link in LINK.findall(page.read_text())]

    assert not [target for target in targets if not target.exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_make_targets_that_a_page_names_exist(page: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)

    named = re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE)

    assert set(named) <= set(targets)


def test_the_page_of_the_ports_shows_what_they_export() -> None:
    page = (PROJECT / "docs" / "reference" / "ports.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)

    assert shown == sorted(name for name in ports.__all__ if isinstance(getattr(ports, name), type))


def test_every_line_of_the_commented_log_is_one_that_the_daemon_writes() -> None:
    page = (PROJECT / "docs" / "guide" / "reading-the-log.md").read_text(encoding="utf-8")
    shown = set(re.findall(r'"event": "(\w+)"', page)) | set(re.findall(r'"code": "(\w+)"', page))

    assert {"state_kept", "scaling_report", "WINDOW_FILLING", "SIZED"} <= shown
    assert shown <= texts()
