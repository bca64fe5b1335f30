"""What commands load: a fresh interpreter runs each, and tells which libraries it has loaded in the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from flink_autoscaler.standalone.cli.main import _COMMANDS_OF
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.records import SqlRecordStore
from flink_autoscaler.stores.sql.schema import upgrade_schema
from testkit.builders.sql import an_event, write_events
from testkit.contracts.recorded_passes import scaled_up, stored
from testkit.fakes.flink import FakeFlink, chain

OF_HELP = frozenset({"pydantic"})
"""What typer itself loads to read the options of a command."""
HEAVY = frozenset({
    *("aiohttp", "alembic", "apscheduler", "httpx", "jinja2", "prometheus_client", "rich", "sqlalchemy"),
    *("stamina", "starlette", "structlog", "uvicorn", "yaml", *OF_HELP),
    *("numpy", "pandas", "py4j", "pyarrow", "pyspark"),
})  # fmt: skip
OF_SPARK = frozenset({"numpy", "pandas", "py4j", "pyarrow", "pyspark"})
"""What takes longer to load than most commands take to run."""

OF_READING = OF_SPARK | {"alembic", "apprise", "apscheduler", "fastapi", "httpx", "starlette", "uvicorn"}
"""What no command needs that only reads the database."""

PROGRAM = (
    "import sys\n"
    "from flink_autoscaler.standalone.__main__ import main\n"
    "try:\n"
    "    main()\n"
    "finally:\n"
    "    print('loaded', *{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)\n"
)
EVERY_HELP = """
import contextlib, io, sys
from flink_autoscaler.standalone.cli.main import _COMMANDS_OF, app
for module, names in _COMMANDS_OF.items():
    before = set(sys.modules)
    for name in names:
        with contextlib.redirect_stdout(io.StringIO()):
            app([name, "--help"], standalone_mode=False)
    print(f"{module}:", *{each.partition(".")[0] for each in set(sys.modules) - before}, sep=" ", file=sys.stderr)
"""


def loaded_by(*arguments: str) -> tuple[int, frozenset[str], str]:
    """Return exit code, top-level names of modules, and output of a command."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AUTOSCALER", "FLINK"))}
    environment = {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, frozenset(done.stderr.splitlines()[-1].split()[1:]), done.stdout


@pytest.fixture
def database(tmp_path: Path) -> DatabaseSettings:
    """Return a database with an event and recorded passes."""
    settings = DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")
    with closing(Database(settings)) as opened:
        upgrade_schema(opened)
        write_events(opened, an_event(message="one"))
        stored(scaled_up().records[:3], SqlRecordStore(opened))
    return settings


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_no_large_library(option: str) -> None:
    code, loaded, output = loaded_by(option)

    assert (code, loaded & HEAVY, "flink-autoscaler" in output) == (0, frozenset(), True)


def test_help_of_no_command_loads_a_large_library() -> None:
    done = subprocess.run([sys.executable, "-c", EVERY_HELP], capture_output=True, text=True, timeout=300, check=True)

    loaded = dict(line.split(":") for line in done.stderr.splitlines())
    assert len(loaded) == len(list(_COMMANDS_OF.values()))
    assert {module: HEAVY.intersection(names.split()) - OF_HELP for module, names in loaded.items()} == {
        module: frozenset() for module in loaded
    }


def test_jobs_loads_neither_spark_nor_arrow() -> None:
    with FakeFlink() as flink:
        flink.add_job("orders", chain(vertices=2, parallelism=3))
        prefix = "autoscaler.standalone.fetcher.flink-cluster"

        code, loaded, output = loaded_by(
            *("jobs", "--json", "--set", f"{prefix}.host=127.0.0.1"),
            *("--set", f"{prefix}.port={flink.url.rsplit(':', 1)[1]}"),
        )

    assert [job["parallelism"] for job in json.loads(output)["jobs"]] == [3]
    assert (code, loaded & OF_SPARK) == (0, frozenset())


def test_check_config_loads_neither_spark_nor_arrow() -> None:
    code, loaded, output = loaded_by("check-config")

    assert (code, loaded & OF_SPARK, "autoscaler.http.port" in output) == (0, frozenset(), True)


@pytest.mark.parametrize(
    ("command", "shown"),
    [(("commands",), ""), (("events",), "one"), (("explain", "orders"), "rescale: enrich 4 -> 7")],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_a_command_that_only_reads_the_database_loads_nothing_else(
    database: DatabaseSettings, command: tuple[str, ...], shown: str
) -> None:
    settings = {
        "autoscaler.standalone.jdbc.url": database.url,
        "autoscaler.standalone.state-store.type": "JDBC",
        "autoscaler.standalone.event-handler.type": "JDBC",
    }

    code, loaded, output = loaded_by(
        *command, *(part for item in settings.items() for part in ("--set", "=".join(item)))
    )

    assert code == 0
    assert shown in output
    assert loaded & {"sqlalchemy", *OF_READING} == {"sqlalchemy"}
