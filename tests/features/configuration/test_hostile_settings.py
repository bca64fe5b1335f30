"""Settings that nobody means: every one is a problem with its place, and none takes long or fills the screen."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.sources.layer import MAX_BYTES

SECONDS = 10.0
"""Of the processor; each takes less than a second where nothing else runs, and took 18 to 25 before."""


def a_file(folder: Path, text: str) -> Path:
    file = folder / "a.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def problems_of(file: Path | None, *overrides: str, **environment: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        SettingsLoader(file, overrides, environment=environment).read()
    return str(caught.value).splitlines()


def clusters(number: int, name: Callable[[int], str]) -> str:
    entries = (f"- name: {name(each)}\n  url: http://h{each}:1\n" for each in range(number))
    return "autoscaler.clusters:\n" + "".join(entries)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("".join(f"autoscaler.htpp.key{n}: 1\n" for n in range(19_000)), "unknown key", id="keys of ours"),
        pytest.param("".join(f"job.autoscaler.key{n}: 1\n" for n in range(19_000)), "unknown key", id="keys of jobs"),
        pytest.param(clusters(2_000, lambda _: "same"), "and 1997 more", id="clusters of one name"),
        pytest.param("x: [" + "a, " * 300_000 + "]", "more than 20000 values", id="a list of 900 kB"),
        pytest.param("x:\n" + "- a\n" * 250_000, "more than 20000 values", id="a list of 250,000 lines"),
        pytest.param("x: " + "[" * 500_000, "40 levels", id="half a million levels"),
        pytest.param("autoscaler.event-handlers: " + "a;" * 500_000, "at most 65536", id="a value of 1 MB"),
        pytest.param("? autoscaler." + "a" * 1_000_000 + "\n: 1", "at most 1000", id="a key of 1 MB"),
        pytest.param(f"autoscaler.clusters.{'9' * 900}.name: a", "0 to 9999", id="a cluster of 900 digits"),
        pytest.param(
            "autoscaler.clusters.99999.options.job.autoscaler.enabled: true", "0 to 9999", id="option of cluster 99,999"
        ),
    ],
)
def test_much_is_refused_soon_and_in_few_words(tmp_path: Path, text: str, expected: str) -> None:
    file = a_file(tmp_path, text)
    begin = time.thread_time()

    problems = problems_of(file)

    assert time.thread_time() - begin < SECONDS
    assert expected in "\n".join(problems)
    assert str(file) in problems[0]
    assert len("\n".join(problems)) < 40_000


def test_thousands_of_keys_that_are_not_ours_are_read_soon(tmp_path: Path) -> None:
    keys = ["autoscaller.http.port: 1\n", *(f"autoscaler-like.key{number}: 1\n" for number in range(18_000))]
    begin = time.thread_time()

    _, configuration = SettingsLoader(a_file(tmp_path, "".join(keys)), environment={}).load()

    assert time.thread_time() - begin < SECONDS
    assert "did you mean 'autoscaler.http.port'?" in configuration.warnings[0]


def test_problems_beyond_a_hundred_are_counted(tmp_path: Path) -> None:
    problems = problems_of(a_file(tmp_path, "".join(f"autoscaler.key{number}: 1\n" for number in range(250))))

    assert (len(problems), problems[-1]) == (101, "and 150 more problems")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param('a: 1\nautoscaler.realizer: "\\UFFFFFFFF"', "line 2", id="no such character"),
        pytest.param('a: 1\nautoscaler.realizer: "\\ud800"', "line 2", id="half a character"),
        pytest.param('a: 1\n"\\ud800": 1', "line 2", id="half a character in a key"),
        pytest.param(
            'a: 1\nautoscaler.standalone.jdbc.password-file: "/x\\0y"',
            "autoscaler.standalone.jdbc.password-file ({file} line 2)",
            id="NUL in a path",
        ),
        pytest.param(
            'autoscaler.clusters:\n- name: a\n  url: http://a:1\n  auth.keytab: "/x\\0y"',
            "autoscaler.clusters.0.auth.keytab ({file} line 4)",
            id="NUL in the path of a cluster",
        ),
        pytest.param('job.autoscaler.policy: "a\\0"', "job.autoscaler.policy ({file} line 1)", id="NUL for jobs"),
    ],
)
def test_characters_that_are_none_are_told_with_their_place(tmp_path: Path, text: str, place: str) -> None:
    file = a_file(tmp_path, text)

    problems = problems_of(file)

    assert len(problems) == 1
    assert place.format(file=file) in problems[0]
    assert problems[0].encode()


def test_bytes_that_are_not_utf_8_are_told_with_the_variable() -> None:
    variable = {"AUTOSCALER__REALIZER": os.fsdecode(b"\xff")}

    problems = problems_of(None, "autoscaler.http.host=\udcff", **variable)

    assert [problem.partition(":")[0] for problem in problems] == [
        "autoscaler.realizer (environment variable AUTOSCALER__REALIZER)",
        "autoscaler.http.host (--set)",
    ]


def test_a_path_with_nul_is_no_file() -> None:
    assert problems_of(Path("/x\0y")) == ["'/x\\x00y': not the name of a file"]


def test_a_named_pipe_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    assert problems_of(pipe) == [f"{pipe}: a named pipe, expected a file"]


@pytest.fixture
def shell_pipe() -> Callable[[bytes], Path]:
    """Return what makes a path as a shell gives it for ``<(command)``."""

    def made(content: bytes) -> Path:
        reading, writing = os.pipe()

        def write() -> None:
            with open(writing, "wb") as stream:
                stream.write(content)

        threading.Thread(target=write, daemon=True).start()
        return Path(f"/dev/fd/{reading}")

    return made


def test_a_pipe_of_the_shell_is_read(shell_pipe: Callable[[bytes], Path]) -> None:
    text = "autoscaler.http.port: 1234\n" + "# long\n" * 100_000

    settings = SettingsLoader(shell_pipe(text.encode()), environment={}).read()

    assert settings.http.port == 1234


def test_a_pipe_is_bounded(shell_pipe: Callable[[bytes], Path]) -> None:
    (problem,) = problems_of(shell_pipe(b"#" * (MAX_BYTES + 10)))

    assert problem.endswith(f"larger than {MAX_BYTES} bytes")


def test_a_pipe_that_was_read_before_is_no_empty_configuration(shell_pipe: Callable[[bytes], Path]) -> None:
    (problem,) = problems_of(shell_pipe(b""))

    assert problem.endswith("nothing came through the pipe; it can be read once only")


def test_no_file_at_all_is_an_empty_one() -> None:
    assert SettingsLoader(Path("/dev/null"), environment={}).configuration().values == {}


@pytest.mark.parametrize(
    "text", ["u:s3/cr3t@h", "u:s3?cr3t@h", "u:s3#cr3t@h", "u:s3 cr3t@h", "u:12/s3cr3t@h", "s3cr3t@h"]
)
def test_problems_with_a_url_leave_out_its_password(text: str) -> None:
    problems = problems_of(
        None,
        "autoscaler.clusters.0.name=main",
        f"autoscaler.clusters.0.url=http://{text}:8081",
    )

    assert len(problems) == 1
    assert "autoscaler.clusters.0.url = 'http://******@h:8081' (--set): expected http://" in problems[0]
    assert "cr3t" not in problems[0]
