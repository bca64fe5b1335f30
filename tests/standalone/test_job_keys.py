from __future__ import annotations

import pytest

from flink_autoscaler.clients import JobOverview
from flink_autoscaler.standalone.job_keys import KEY_LIMIT, keyed_jobs
from flink_autoscaler.standalone.sections import JobKeyMode


def _job(job_id: str, name: str = "orders", state: str = "RUNNING", start_ms: int = 0) -> JobOverview:
    return JobOverview(job_id=job_id, name=name, state=state, tasks={}, start_ms=start_ms)


def _keys(*jobs: JobOverview, mode: JobKeyMode = JobKeyMode.NAME) -> dict[str, str]:
    return {key: job.job_id for key, job in keyed_jobs("main", jobs, mode).items()}


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        pytest.param([_job("a")], {"main/orders": "a"}, id="one job"),
        pytest.param([_job("a"), _job("b", "x")], {"main/orders": "a", "main/x": "b"}, id="two names, in order"),
        pytest.param(
            [_job("a"), _job("b", state="RESTARTING")],
            {"main/orders#a": "a", "main/orders#b": "b"},
            id="two live jobs with one name",
        ),
        pytest.param(
            [_job("a", state="CANCELED"), _job("b")], {"main/orders": "b"}, id="an ended job makes way for a live one"
        ),
        pytest.param(
            [_job("a", state="FAILED", start_ms=2), _job("b", state="FINISHED", start_ms=1)],
            {"main/orders": "a"},
            id="of ended jobs the latest",
        ),
        pytest.param([_job("a", "line\nfeed\x1b[2J")], {"main/line?feed?[2J": "a"}, id="control characters"),
        pytest.param([_job("a", "half \ud83d")], {"main/half ?": "a"}, id="half of a surrogate pair"),
        pytest.param(
            [_job("a", "x\n"), _job("b", "x\t")], {"main/x?#a": "a", "main/x?#b": "b"}, id="alike once made printable"
        ),
        pytest.param([], {}, id="no jobs"),
    ],
)
def test_keys_by_name(jobs: list[JobOverview], expected: dict[str, str]) -> None:
    assert _keys(*jobs) == expected


def test_keys_by_job_id_are_those_of_the_java_process() -> None:
    jobs = [_job("a"), _job("b", state="FINISHED")]

    assert _keys(*jobs, mode=JobKeyMode.JOB_ID) == {"a": "a", "b": "b"}


def test_longest_key_is_kept_as_it_is() -> None:
    name = "n" * (KEY_LIMIT - len("main/"))

    assert list(_keys(_job("a", name))) == [f"main/{name}"]


def test_too_long_names_have_short_distinct_and_stable_keys() -> None:
    jobs = [_job("a", "n" * 300 + "a"), _job("b", "n" * 300 + "b")]

    keys = list(_keys(*jobs))

    assert {len(key) for key in keys} == {KEY_LIMIT}
    assert len(set(keys)) == 2
    assert keys == list(_keys(*jobs))


def test_too_long_shared_names_still_have_distinct_keys() -> None:
    assert len(_keys(_job("a", "n" * 300), _job("b", "n" * 300))) == 2
