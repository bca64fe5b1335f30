"""A daemon whose history is in a bucket that goes away, refuses, hangs and is slow; and that is killed meanwhile."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.tables.files import files_at, own_session
from flink_autoscaler.pipeline.tables.schema import DECISIONS
from flink_autoscaler.pipeline.tables.spark_files import read
from flink_autoscaler.standalone.history.sink import HistorySink
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, chain
from testkit.scenarios.faults import StallingProxy
from testkit.scenarios.runner.process import DaemonProcess
from testkit.servers.object_store import KEY_ID, SECRET, NoMavenError, ObjectStore, s3_jars, spark_options

pytestmark = [pytest.mark.spark, pytest.mark.suite(name="services")]

PATIENCE: Final = 900.0
"""Seconds until a trouble is told, or is over, on a busy machine; a quiet one takes up to 180."""

FURTHER_PASSES: Final = 3
SLOW: Final = 0.05
"""Seconds that everything waits in each direction: about a hundred times of what a store nearby takes."""


@dataclass
class Trouble:
    """What was seen of a store that could not be used.

    Attributes:
        error: What the daemon told of it.
        told: How often it did.
        waiting: Rows that waited at the end of it.
        spilled: Bytes of them on disk.
        passes: That were evaluated meanwhile.
        seconds: From the end of the trouble to the rows being written.
    """

    error: str
    told: int
    waiting: float
    spilled: float
    passes: float
    seconds: float


@dataclass
class Story:
    """What happened to a daemon.

    Attributes:
        recovered: Rows that the second run found of the first one, which was killed.
        passes: Evaluated by both runs, at the least.
        lost: Rows and passes that were given up.
        warnings: Of the slow store.
        command_lines: Of the daemon's child processes.
        log: Of both runs.
        instants: Of all decisions in the history.
        spill: What is left of the spill folder.
    """

    troubles: dict[str, Trouble] = field(default_factory=dict)
    recovered: int = 0
    passes: float = 0.0
    lost: list[float] = field(default_factory=list)
    warnings: int = 0
    command_lines: str = ""
    log: str = ""
    instants: list[datetime] = field(default_factory=list)
    spill: list[Path] = field(default_factory=list)
    exit_code: int | None = None


class Telling:
    """A daemon with a history in a bucket, and what becomes of it."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        self.story = Story()

    def series(self, name: str) -> float:
        """Return the value of a series of the history."""
        return self._of(rf"flink_autoscaler_history_{name}")

    def passes(self) -> float:
        """Return the passes that were evaluated on Spark or without it."""
        engines = ("spark", "inline")
        name = r'flink_autoscaler_passes_total\{{cluster="main",engine="{}",result="succeeded"\}}'
        return sum(max(0.0, self._of(name.format(engine))) for engine in engines)

    def start(self) -> None:
        """Start a run and wait until rows are in the bucket."""
        self.daemon.start(wait=False)
        self.until("a page", lambda: bool(self.daemon.lines("http_listening")))
        self.until("rows in the bucket", lambda: self.series("rows_written_total") > 0 and self._is_well())

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        wait_until(what, holds, PATIENCE, context=lambda: self.daemon.text()[-6000:])

    def through(self, name: str, begin: Callable[[], object], end: Callable[[], object]) -> None:
        """Let the store be in trouble until that is told and some passes were evaluated; wait for the rows of them."""
        told, back = self._told("history_unavailable"), self._told("history_available")
        passes = self.passes()
        begin()
        self.until(f"{name}: a warning", lambda: self._told("history_unavailable") > told)
        seen = self.passes()
        self.until(f"{name}: further passes", lambda: self.passes() >= seen + FURTHER_PASSES)
        waiting, spilled = self.series("rows_waiting"), self.series("spilled_bytes")
        evaluated = self.passes() - passes
        end()
        began = time.monotonic()
        self.until(f"{name}: rows in the bucket", lambda: self._told("history_available") > back)
        lines = self.daemon.lines("history_unavailable")[told:]
        seconds = time.monotonic() - began
        self.story.troubles[name] = Trouble(
            lines[0]["error"], len(lines), waiting, spilled, evaluated, round(seconds, 1)
        )

    def note(self) -> None:
        """Write down what counts at the end of a run."""
        self.story.passes += self.passes()
        self.story.lost += [self.series("rows_lost_total"), self.series("passes_lost_total")]

    def _is_well(self) -> bool:
        """Tell whether what was told to be away is back; a busy machine may take a minute to start Spark."""
        return self._told("history_unavailable") == self._told("history_available")

    def _told(self, event: str) -> int:
        return len(self.daemon.lines(event))

    def _of(self, pattern: str) -> float:
        # Each run has a page of its own; the last one counts.
        page = wait_until("the page", self._page, PATIENCE)
        found = re.search(rf"^{pattern} (\S+)$", page, re.MULTILINE)
        return -1.0 if found is None else float(found[1])

    def _page(self) -> str:
        try:
            return self.daemon.page("/metrics")
        except OSError:  # a machine with much else to do
            return ""


def command_lines_of(daemon: DaemonProcess) -> str:
    return "".join(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in daemon.children("java"))


def configured(daemon: DaemonProcess, url: str, root: str, spill: Path, port: int) -> None:
    """Write a configuration as the guide has it, credentials included."""
    conf = {
        **spark_options(port),
        "spark.hadoop.fs.s3a.access.key": KEY_ID,
        "spark.hadoop.fs.s3a.secret.key": SECRET,
    }
    options = {
        "autoscaler.engine.kind": "spark",
        "autoscaler.engine.spark-master": "local[2]",
        "autoscaler.log.level": "debug",
        "autoscaler.standalone.control-loop.interval": "2 s",
        "autoscaler.history.enabled": "true",
        "autoscaler.history.path": root,
        "autoscaler.history.spill-directory": str(spill),
        "autoscaler.history.interval": "0 s",
        "autoscaler.history.flush-interval": "2 s",
        **{f"autoscaler.engine.spark-config.{key}": value for key, value in conf.items()},
    }
    daemon.configure({"main": url}, **options)


def told(store: ObjectStore, network: StallingProxy, flink: FakeFlink, folder: Path) -> Story:
    """Let a daemon go through all troubles, be killed in one of them, and be started again."""
    root, spill = store.url("history"), folder / "spill"
    with DaemonProcess(folder, "first") as daemon:
        configured(daemon, flink.url, root, spill, network.port)
        telling = Telling(daemon)
        telling.start()
        telling.story.command_lines = command_lines_of(daemon)
        telling.through("away", network.refuse, network.listen)
        telling.through("refuses", lambda: store.forbid("PutObject"), store.allow)
        telling.through("hangs", network.cut, network.mend)
        warnings = len(daemon.lines("history_unavailable"))
        network.slow_down(SLOW)
        written = telling.series("rows_written_total")
        telling.until("slow: rows in the bucket", lambda: telling.series("rows_written_total") > written)
        network.slow_down(0.0)
        telling.story.warnings = len(daemon.lines("history_unavailable")) - warnings
        store.forbid("PutObject")
        telling.until("rows that wait", lambda: telling.series("rows_waiting") > 0 and telling.series("up") == 0.0)
        telling.note()
        daemon.send(signal.SIGKILL)
        daemon.exit_code(PATIENCE)
        store.allow()
    with DaemonProcess(folder, "second", file=daemon.file) as heir:
        heir.take_state_of(daemon)
        telling.daemon = heir
        telling.start()
        [recovered] = heir.lines("history_rows_recovered")
        telling.note()
        telling.story.recovered = recovered["rows"]
        telling.story.exit_code = heir.stop(PATIENCE)
    telling.story.log = daemon.text() + heir.text()
    return telling.story


def write_the_rest(spark: SparkSession, root: str, spill: Path) -> None:
    """Write what the last run had no time for at its end, as a further one would."""
    settings = HistorySettings(enabled=True, path=root, compaction_interval=0.0, spill_directory=str(spill))
    HistorySink(settings, sessions=lambda: nullcontext(spark)).close(timeout=PATIENCE)


def instants_of(spark: SparkSession, root: str) -> list[datetime]:
    return [row.ts for row in read(spark, files_at(root, spark), DECISIONS).frame.collect()]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Tell the story once; skip where Hadoop's client for the store cannot be had."""
    with ExitStack() as stack:
        try:
            s3_jars()
        except NoMavenError as error:
            pytest.skip(str(error))
        store = stack.enter_context(ObjectStore())
        network = stack.enter_context(StallingProxy(store.port))
        flink = stack.enter_context(FakeFlink())
        flink.add_job("orders", chain(sources=1, vertices=3))
        folder = tmp_path_factory.mktemp("daemon")
        found = told(store, network, flink, folder)
        for name, value in (("AWS_ACCESS_KEY_ID", KEY_ID), ("AWS_SECRET_ACCESS_KEY", SECRET)):
            stack.enter_context(pytest.MonkeyPatch.context()).setenv(name, value)
        settings = SparkSettings(master="local[1]", conf=spark_options(store.port))
        spark = stack.enter_context(own_session(settings))
        write_the_rest(spark, store.url("history"), folder / "spill")
        found.spill = list((folder / "spill").iterdir())
        found.instants = instants_of(spark, store.url("history"))
        print(json.dumps({name: vars(trouble) for name, trouble in found.troubles.items()}, indent=1))
        print(f"recovered {found.recovered} rows, {len(found.instants)} passes in the history")
        yield found


@pytest.mark.parametrize(
    ("name", "error"),
    [
        pytest.param("away", "Connection refused", id="nobody listens"),
        pytest.param("refuses", r"AccessDenied|403", id="403"),
        pytest.param("hangs", r"(?i)timed? ?out", id="nobody answers"),
    ],
)
def test_trouble_is_told_once_while_rows_wait_on_disk_and_passes_go_on(story: Story, name: str, error: str) -> None:
    trouble = story.troubles[name]

    assert re.search(error, trouble.error)
    assert trouble.told == 1
    assert trouble.waiting > 0
    assert trouble.spilled > 0
    assert trouble.passes >= FURTHER_PASSES


def test_slow_store_is_no_trouble(story: Story) -> None:
    assert story.warnings == 0


def test_no_row_is_lost_and_none_is_there_twice(story: Story) -> None:
    assert story.lost == [0.0] * 4
    assert len(story.instants) >= story.passes
    assert len(story.instants) == len(set(story.instants))


def test_rows_of_a_daemon_that_was_killed_are_written_by_the_next_one(story: Story) -> None:
    assert story.recovered > 0
    assert story.exit_code == 0
    assert story.spill == []


def test_credentials_are_in_no_log_and_on_no_command_line(story: Story) -> None:
    assert "org.apache.spark.deploy.SparkSubmit" in story.command_lines
    assert SECRET not in story.command_lines
    assert SECRET not in story.log
