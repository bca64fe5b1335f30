"""Commands that only read the database: what they leave out, so that they answer at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

UNWANTED = ("pyspark", "pyarrow", "httpx", "fastapi", "starlette", "uvicorn", "apscheduler", "apprise", "alembic")
PROGRAM = """
import sys
from flink_autoscaler.standalone.cli.main import main
try:
    main()
except SystemExit:
    pass
print("loaded:", *sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("command", [("orders",), ("events",), ("explain", "main/job")])
def test_command_on_the_database_imports_no_part_that_it_does_not_use(tmp_path: Path, command: tuple[str, ...]) -> None:
    options = {
        "autoscaler.clusters.0.name": "main",
        "autoscaler.clusters.0.url": "http://127.0.0.1:9",
        "autoscaler.standalone.jdbc.url": f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}",
        "autoscaler.standalone.state-store.type": "JDBC",
        "autoscaler.standalone.event-handler.type": "JDBC",
    }
    given = [part for key, text in options.items() for part in ("--set", f"{key}={text}")]
    upgrade = [sys.executable, "-m", "flink_autoscaler.standalone", "db", "upgrade", *given]
    subprocess.run(upgrade, check=True, capture_output=True, timeout=300)

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command, *given], capture_output=True, text=True, timeout=300, check=False
    )

    loaded = done.stderr.rpartition("loaded:")[2].split()
    assert "sqlalchemy" in loaded
    assert [name for name in UNWANTED if name in loaded] == []
