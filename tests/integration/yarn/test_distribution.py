"""Hadoop's jars come from Maven Central as they were, or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from testkit.clusters.flink.configuration import free_ports
from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.yarn.distribution import RELEASE, Artifact, MavenUnreachableError, artifacts, download

JAR = b"jar"
GENUINE = hashlib.sha256(JAR).hexdigest()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep the test's output short."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target"
    path.mkdir()
    return path


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "repository" / "a"
    folder.mkdir(parents=True)
    for name in ("server-1.jar", "reload4j-1.jar", "netty-1.jar"):
        (folder / name).write_bytes(JAR)
    with served(folder.parent) as url:
        monkeypatch.setenv("FLINK_AUTOSCALER_MAVEN", url)
        yield


def test_the_list_names_every_jar_once() -> None:
    listed = artifacts()

    assert len({artifact.file_name for artifact in listed}) == len(listed)
    wanted = ("yarn-server-resourcemanager", "yarn-server-nodemanager", "hdfs")
    assert {f"hadoop-{part}-{RELEASE}.jar" for part in wanted} <= {artifact.file_name for artifact in listed}


@pytest.mark.usefixtures("repository")
def test_jars_are_sorted_into_those_for_all_and_those_for_some_of_hadoop(target: Path) -> None:
    download([Artifact(GENUINE, f"a/{name}-1.jar") for name in ("server", "reload4j", "netty")], target)

    found = {folder.name: [path.name for path in folder.iterdir()] for folder in target.iterdir()}
    assert found == {"lib": ["server-1.jar"], "logging": ["reload4j-1.jar"], "hdfs": ["netty-1.jar"]}


@pytest.mark.usefixtures("repository")
def test_another_file_than_the_known_one_is_refused(target: Path) -> None:
    forged = hashlib.sha256(b"other").hexdigest()

    with pytest.raises(HarnessError, match="is not the file it was"):
        download([Artifact(forged, "a/server-1.jar")], target)


@pytest.mark.usefixtures("repository")
def test_a_missing_file_is_an_error_and_no_reason_to_skip(target: Path) -> None:
    with pytest.raises(HarnessError, match="404") as failure:
        download([Artifact(GENUINE, "a/missing-1.jar")], target)

    assert not isinstance(failure.value, MavenUnreachableError)


def test_a_repository_that_does_not_answer_is_an_error_of_its_own(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINK_AUTOSCALER_MAVEN", f"http://127.0.0.1:{free_ports(1)[0]}")

    with pytest.raises(MavenUnreachableError, match="cannot be reached"):
        download([Artifact(GENUINE, "a/server-1.jar")], target)
