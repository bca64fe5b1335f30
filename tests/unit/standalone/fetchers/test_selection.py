from __future__ import annotations

import pytest

from flink_autoscaler.clients.flink.decode import JobOverview
from flink_autoscaler.standalone.fetchers.job_keys import is_selected, select_jobs
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings


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
