"""The metric history on a real object store, reached by the daemon and commands as users set them up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.tables.files import FileVanishedError, HistoryError, files_at, own_session
from flink_autoscaler.pipeline.tables.schema import SAMPLES
from flink_autoscaler.pipeline.tables.spark_files import read
from flink_autoscaler.pipeline.tables.store import append, read_rows
from testkit.builders.backtests import a_history, job_rows
from testkit.builders.history import DAY_MS, NOON_MS, a_batch, sample_rows
from testkit.builders.profiles import ASOF, write_samples
from testkit.clusters.spark import commands
from testkit.servers.object_store import KEY_ID, SECRET, NoMavenError, ObjectStore, s3_jars, spark_options

pytestmark = [pytest.mark.spark, pytest.mark.suite(name="services")]

PATIENCE: Final = 900.0
"""Seconds for a command that takes fifteen on an idle machine."""

PLAIN: Final = "plain"
"""A bucket of a store that cannot make an object only where there is none, as far as Hadoop is told."""

CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    """Give a store; skip where Hadoop's client for it cannot be had."""
    with ExitStack() as stack:
        try:
            s3_jars()
        except NoMavenError as error:
            pytest.skip(str(error))
        yield stack.enter_context(ObjectStore())


@pytest.fixture(scope="module")
def spark(store: ObjectStore) -> Iterator[SparkSession]:
    """Give a session whose JVM has the credentials in its environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        conf = {**spark_options(store.port), f"spark.hadoop.fs.s3a.bucket.{PLAIN}.create.conditional.enabled": "false"}
        with own_session(SparkSettings(master="local[1]", conf=conf)) as session:
            yield session


@pytest.fixture
def root(store: ObjectStore, request: pytest.FixtureRequest) -> str:
    """Return the URL of a history of this test."""
    return store.url(request.node.name.partition("[")[0])


@pytest.fixture
def options(store: ObjectStore) -> list[str]:
    """Return the options of commands that reach the store; credentials are not among them."""
    conf = {**spark_options(store.port), "spark.sql.shuffle.partitions": "2"}
    return commands.engine_options(SparkSettings(master="local[1]", conf=conf))


def upload(store: ObjectStore, folder: Path, url: str) -> None:
    """Put the files of a folder where a URL says."""
    for file in folder.rglob("*"):
        if file.is_file():
            store.upload(file, f"{url.rpartition('/')[2]}/{file.relative_to(folder)}")


def run(*command: str | Path) -> commands.Ended:
    """Run a command that has the credentials in its environment."""
    return commands.await_command(commands.start(*command, variables=CREDENTIALS), PATIENCE)


def rates_of(spark: SparkSession, root: str) -> list[float]:
    return sorted(row.arrival_rate for row in read(spark, files_at(root, spark), SAMPLES).frame.collect())


def test_history_is_written_compacted_shown_exported_and_read_back(
    store: ObjectStore, spark: SparkSession, root: str, options: list[str], tmp_path: Path
) -> None:
    for batch in (sample_rows(2), sample_rows(3), sample_rows(1, at_ms=NOON_MS - 900 * DAY_MS)):
        append(files_at(root, spark), a_batch(batch))
    place = ("--path", root, *options)

    compacted = run("history", "compact", *place, "--retention", "500 d")
    shown = commands.document(run("history", "info", "--json", *place))

    assert compacted.returncode == 0, compacted.stderr
    [samples] = [table for table in shown["tables"] if table["name"] == "samples"]
    assert (samples["files"], samples["rows"], shown["staged"]) == (1, 3, 0)
    assert rates_of(spark, root) == [0.0, 1.0, 2.0]
    as_in_a_notebook = spark.read.option("recursiveFileLookup", "true").parquet(f"{root}/samples")
    assert sorted(row.arrival_rate for row in as_in_a_notebook.collect()) == [0.0, 1.0, 2.0]
    assert [key for key in store.objects(root.rpartition("/")[2]) if SECRET in key or "_maintenance" in key] == []


def test_file_that_two_make_is_made_once_and_whole(spark: SparkSession, root: str) -> None:
    files = files_at(root, spark)
    names = [f"notes/{number}.json" for number in range(10)]

    def make(name: str, content: bytes) -> tuple[bool, bytes]:
        return files.create(name, content), files.read(name)

    with ThreadPoolExecutor(2) as threads:
        done = [[threads.submit(make, name, content) for content in (b"[1]", b"[2]")] for name in names]
    found = [[future.result() for future in pair] for pair in done]

    assert [sorted(is_made for is_made, _ in pair) for pair in found] == [[False, True]] * len(names)
    assert [len({content for _, content in pair}) for pair in found] == [1] * len(names), "both see the same file"
    assert files.list("_staging") == []


def test_store_that_cannot_be_asked_makes_files_by_moving_them(store: ObjectStore, spark: SparkSession) -> None:
    store.make_bucket(PLAIN)
    files = files_at(f"s3a://{PLAIN}/history", spark)

    made = [files.create("notes/a.json", content) for content in (b"first", b"second")]
    with ThreadPoolExecutor(2) as threads:
        at_once = list(threads.map(lambda content: files.create("notes/b.json", content), (b"[1]", b"[2]")))

    assert made == [True, False]
    assert files.read("notes/a.json") == b"first"
    assert True in at_once
    assert files.read("notes/b.json") in {b"[1]", b"[2]"}
    assert files.list("_staging") == []


def test_file_that_went_away_and_bucket_that_is_not_there_are_told(spark: SparkSession, root: str) -> None:
    storage = files_at(root, spark)

    with pytest.raises(FileVanishedError):
        storage.read("samples/a.parquet")
    with pytest.raises(FileVanishedError):
        read_rows(storage, "samples/a.parquet", SAMPLES)
    with pytest.raises(HistoryError, match=r"s3a://no-such-bucket/history.*bucket does not exist"):
        files_at("s3a://no-such-bucket/history", spark).exists()


def test_bucket_that_refuses_says_so_with_the_place(store: ObjectStore, spark: SparkSession, root: str) -> None:
    storage = files_at(root, spark)
    append(storage, a_batch(sample_rows(2)))
    store.forbid("PutObject")
    try:
        with pytest.raises(HistoryError, match=f"{root}/.*(AccessDenied|403)") as refused:
            append(storage, a_batch(sample_rows(2)))
    finally:
        store.allow()

    assert SECRET not in str(refused.value)
    assert rates_of(spark, root) == [0.0, 1.0]


def both(there: tuple[Any, ...], here: tuple[Any, ...]) -> tuple[commands.Ended, commands.Ended]:
    """Run a command with a history in the bucket and with the same one on this machine, at the same time."""
    processes = [commands.start(*command, variables=CREDENTIALS) for command in (there, here)]
    first, second = (commands.await_command(process, PATIENCE) for process in processes)
    return first, second


def test_backtest_of_a_history_in_a_bucket_comes_to_that_of_one_here(
    store: ObjectStore, root: str, options: list[str], tmp_path: Path
) -> None:
    history = a_history(tmp_path / "history", job_rows(), job_rows("main/clicks"))
    upload(store, history, root)

    there, here = both(
        ("backtest", "--history", root, "--master", "local[1]", "--json", *options),
        ("backtest", "--history", history, "--master", "none", "--json"),
    )

    assert commands.document(there) == commands.document(here)
    assert len(commands.document(there)["jobs"]) == 2


def test_profiles_of_a_history_in_a_bucket_are_those_of_one_here(
    store: ObjectStore, root: str, options: list[str], tmp_path: Path
) -> None:
    samples = write_samples(tmp_path)
    upload(store, samples.history, root)
    asked = ("forecast", "build", "--asof", ASOF, "--dry-run", "--json", *options, "--history")

    there, here = both((*asked, root), (*asked, samples.history))

    assert len(commands.document(there)["forecasts"]) == 3
    assert commands.document(there) == commands.document(here)


def test_report_of_a_history_in_a_bucket_is_that_of_one_here(
    store: ObjectStore, root: str, options: list[str], tmp_path: Path
) -> None:
    history = a_history(tmp_path / "history", job_rows(), job_rows("main/clicks"))
    upload(store, history, root)
    pages = [tmp_path / "there.html", tmp_path / "here.html"]
    asked = ("report", "--since", "2026-01-31", "--until", "2026-02-01", *options)

    there, here = both((*asked, "--path", root, "-o", pages[0]), (*asked, "--path", history, "-o", pages[1]))

    assert (there.returncode, here.returncode) == (0, 0), f"{there.stderr}{here.stderr}"
    told = [said.stdout.replace(str(page), "page") for said, page in zip((there, here), pages, strict=True)]
    assert told[0] == told[1]
    assert all(job in pages[0].read_text() for job in ("main/orders", "main/clicks"))
    assert os.stat(pages[0]).st_size == pytest.approx(os.stat(pages[1]).st_size, rel=0.01)
