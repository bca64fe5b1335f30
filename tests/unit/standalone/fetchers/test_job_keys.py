from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.clients.flink.decode import JobOverview
from flink_autoscaler.core.model.job import SHARED_JOB_ID
from flink_autoscaler.standalone.fetchers.job_keys import (
    KEY_LIMIT,
    assign_application_keys,
    assign_keys,
    is_selected,
    select_jobs,
)
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings
from flink_autoscaler.standalone.settings.schema.settings import JobKeyMode


def _job(job_id: str, name: str = "orders", state: str = "RUNNING", start_ms: int = 0) -> JobOverview:
    return JobOverview(job_id=job_id, name=name, state=state, tasks={}, start_ms=start_ms)


def _keys(*jobs: JobOverview, mode: JobKeyMode = JobKeyMode.NAME) -> dict[str, str]:
    return {key: job.job_id for key, job in assign_keys("main", jobs, mode).items()}


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        pytest.param([_job("a")], {"main/orders": "a"}, id="one job"),
        pytest.param([_job("a"), _job("b", "x")], {"main/orders": "a", "main/x": "b"}, id="two names, in order"),
        pytest.param(
            [_job("a"), _job("b", state="RESTARTING")],
            {"main/orders": "a", "main/orders#b": "b"},
            id="two live jobs with one name",
        ),
        pytest.param(
            [_job("a", start_ms=2), _job("b", start_ms=1), _job("c", start_ms=-1)],
            {"main/orders#a": "a", "main/orders": "b", "main/orders#c": "c"},
            id="the one that began first has the name",
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
            [_job("a", "x\n"), _job("b", "x\t")], {"main/x?": "a", "main/x?#b": "b"}, id="alike once made printable"
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


def _application_keys(
    applications: dict[str, list[JobOverview]], mode: JobKeyMode = JobKeyMode.NAME
) -> dict[str, tuple[str, str]]:
    keyed = assign_application_keys("main", applications, mode)
    return {key: (placed.application_id, placed.job.job_id) for key, placed in keyed.items()}


@pytest.mark.parametrize(
    ("applications", "expected"),
    [
        pytest.param({"app1": [_job("a")], "app2": []}, {"main/orders": ("app1", "a")}, id="one job"),
        pytest.param(
            {"app1": [_job("a")], "app2": [_job("b")]},
            {"main/orders": ("app1", "a"), "main/orders#b": ("app2", "b")},
            id="one name in two applications",
        ),
        pytest.param(
            {"app1": [_job("a")], "app2": [_job("a")]},
            {"main/orders": ("app1", "a"), "main/orders#a@app2": ("app2", "a")},
            id="one name and one id in two applications",
        ),
        pytest.param(
            {"app1": [_job("a")], "app2": [_job("a", "x")]},
            {"main/orders": ("app1", "a"), "main/x": ("app2", "a")},
            id="one id under two names",
        ),
        pytest.param(
            {"app1": [_job("a", state="CANCELED")], "app2": [_job("a")]},
            {"main/orders": ("app2", "a")},
            id="submitted again as another application",
        ),
    ],
)
def test_keys_by_name_over_applications(
    applications: dict[str, list[JobOverview]], expected: dict[str, tuple[str, str]]
) -> None:
    assert _application_keys(applications) == expected


@pytest.mark.parametrize(
    ("applications", "expected"),
    [
        pytest.param({"app1": [_job("a")], "app2": [_job("b")]}, ["a", "b"], id="two ids"),
        pytest.param({"app1": [_job("a")], "app2": [_job("a")]}, ["a@app1", "a@app2"], id="one id twice"),
        pytest.param(
            {"app1": [_job(SHARED_JOB_ID)]}, [f"{SHARED_JOB_ID}@app1"], id="the id of many, even when it is alone"
        ),
    ],
)
def test_keys_by_job_id_over_applications(applications: dict[str, list[JobOverview]], expected: list[str]) -> None:
    assert list(_application_keys(applications, JobKeyMode.JOB_ID)) == expected


def test_the_id_of_many_is_a_plain_key_where_there_are_no_applications() -> None:
    assert list(_keys(_job(SHARED_JOB_ID), mode=JobKeyMode.JOB_ID)) == [SHARED_JOB_ID]


JOBS = st.builds(
    _job,
    st.sampled_from(["a", "b", SHARED_JOB_ID]),
    st.sampled_from(["orders", "x", "n" * 300]),
    st.sampled_from(["RUNNING", "FINISHED"]),
    st.integers(0, 3),
)


APPLICATIONS = st.dictionaries(
    st.sampled_from(["app1", "app2", "app3"]), st.lists(JOBS, max_size=3, unique_by=lambda job: job.job_id)
)


@given(APPLICATIONS, st.sampled_from(JobKeyMode))
def test_every_live_job_has_a_key_of_its_own(applications: dict[str, list[JobOverview]], mode: JobKeyMode) -> None:
    keyed = assign_application_keys("main", applications, mode)

    alive = {(each, job.job_id) for each, jobs in applications.items() for job in jobs if job.state == "RUNNING"}
    found = [(placed.application_id, placed.job.job_id) for placed in keyed.values()]
    assert alive <= set(found)
    assert len(found) == len(set(found))
    assert all(len(key) <= KEY_LIMIT for key in keyed)


@pytest.mark.parametrize(
    ("include", "exclude", "name", "expected"),
    [
        pytest.param((), (), "orders", True, id="no patterns: all"),
        pytest.param(("orders-*",), (), "orders-eu", True, id="included"),
        pytest.param(("orders-*",), (), "payments", False, id="not included"),
        pytest.param(("a", "orders-*"), (), "orders-eu", True, id="one of several"),
        pytest.param(("orders",), (), "orders-eu", False, id="whole names only"),
        pytest.param((), ("*-test",), "orders-test", False, id="excluded"),
        pytest.param((), ("*-test",), "orders", True, id="not excluded"),
        pytest.param(("orders-*",), ("*-test",), "orders-test", False, id="exclude goes before include"),
        pytest.param(("Orders",), (), "orders", False, id="upper and lower case differ"),
        pytest.param(("job ?",), (), "job 7", True, id="one character"),
        pytest.param(("job [12]",), (), "job 3", False, id="one of some characters"),
        pytest.param(("job [[]1]",), (), "job [1]", True, id="a bracket itself"),
        pytest.param(("a*z",), (), "a\n\u2028\U0001f980/z", True, id="any characters"),
        pytest.param(("[",), (), "[", True, id="a bracket that is not closed"),
        pytest.param(("*",), (), "", True, id="no name at all"),
    ],
)
def test_a_job_is_taken_by_its_name(
    include: tuple[str, ...], exclude: tuple[str, ...], name: str, expected: bool
) -> None:
    assert is_selected(name, ClusterSettings(name="main", include=include, exclude=exclude)) is expected


def test_jobs_that_are_not_taken_are_named() -> None:
    jobs = {
        f"main/{name}": JobOverview(job_id=name, name=name, state="RUNNING", tasks={}, start_ms=0)
        for name in ("c", "a", "b")
    }

    taken, left_out = select_jobs(jobs, ClusterSettings(name="main", exclude=("a",)))

    assert list(taken) == ["main/c", "main/b"]
    assert left_out == {"main/a"}
