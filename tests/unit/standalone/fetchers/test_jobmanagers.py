from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError, FlinkRestError
from flink_autoscaler.standalone.fetchers.flink import FlinkClusterFetcher
from flink_autoscaler.standalone.settings.schema.clusters import BearerAuth
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import Canned, FakeFlink, Fault, flink_error
from testkit.fakes.flink.fetching import MakeFetcher
from testkit.scenarios.runner import LogLines

LIST = "/jobs/overview"
Three = tuple[FakeFlink, FakeFlink, FakeFlink]


@pytest.fixture
def jobmanagers() -> Iterator[Three]:
    with FakeFlink() as a, FakeFlink() as b, FakeFlink() as c:
        for flink in (a, b, c):
            flink.add_job("orders", job_id="1" * 32, start_ms=1)
        yield a, b, c


def lists(*flinks: FakeFlink) -> list[int]:
    return [flink.paths().count(LIST) for flink in flinks]


def url_of(fetcher: FlinkClusterFetcher) -> str:
    """Fetch and return the URL that the job is to be reached at."""
    return fetcher.fetch().jobs[0].endpoint.url


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault.RESET, id="connection reset"),
        pytest.param(Fault.HTML, id="page for people"),
        pytest.param(flink_error(503, "Service temporarily unavailable due to an ongoing leader election."), id="503"),
        pytest.param(Canned(b"", 307, headers={"Location": "http://elsewhere/"}), id="redirect"),
        pytest.param(Fault.HANG, id="no answer"),
        pytest.param(Canned(b"{}"), id="another service"),
    ],
)
def test_the_next_jobmanager_is_asked_in_the_same_pass(
    jobmanagers: Three, make_fetcher: MakeFetcher, fault: Fault | Canned
) -> None:
    a, b, _ = jobmanagers
    a.fault(LIST, fault)

    assert url_of(make_fetcher(a, b, timeout=2.0)) == b.url


def test_while_a_jobmanager_answers_it_alone_is_asked(jobmanagers: Three, make_fetcher: MakeFetcher) -> None:
    a, b, c = jobmanagers
    fetcher = make_fetcher(a, b, c)

    for _ in range(3):
        fetcher.fetch()

    assert lists(a, b, c) == [3, 0, 0]


def test_who_answered_last_is_asked_first(jobmanagers: Three, make_fetcher: MakeFetcher) -> None:
    a, b, c = jobmanagers
    a.pause()
    fetcher = make_fetcher(a, b, c)
    fetcher.fetch()

    a.resume()

    assert [url_of(fetcher) for _ in range(2)] == [b.url, b.url]
    assert lists(a, b) == [0, 3]


def test_among_several_that_answer_the_first_is_taken(jobmanagers: Three, make_fetcher: MakeFetcher) -> None:
    a, b, c = jobmanagers
    a.pause()
    b.delay = 0.1

    assert url_of(make_fetcher(a, b, c)) == b.url


def test_the_others_are_asked_at_the_same_time(jobmanagers: Three, make_fetcher: MakeFetcher) -> None:
    a, b, c = jobmanagers
    a.pause()
    b.fault(LIST, Fault.HANG)
    c.fault(LIST, Fault.HANG)
    fetcher = make_fetcher(a, b, c, timeout=60.0)

    with ThreadPoolExecutor(1) as pool:
        fetching = pool.submit(fetcher.fetch)
        wait_until("a question to each of the others", lambda: lists(b, c) == [1, 1], interval=0.01)
        b.pause()
        c.pause()
        error = fetching.exception(timeout=300)

    assert isinstance(error, FlinkRestError)


def test_when_none_answers_every_one_is_named_with_the_reason(jobmanagers: Three, make_fetcher: MakeFetcher) -> None:
    a, b, c = jobmanagers
    a.pause()
    b.fault(LIST, Fault.HTML)
    c.fault(LIST, flink_error(503, "leader election"))

    with pytest.raises(FlinkRestError) as caught:
        make_fetcher(a, b, c).fetch()

    for part in (f"{a.url}{LIST}: connection refused", f"{b.url}{LIST}: expected JSON", f"{c.url}{LIST}: HTTP 503"):
        assert part in str(caught.value)


def test_one_that_fails_again_is_left_for_the_one_before(jobmanagers: Three, make_fetcher: MakeFetcher) -> None:
    a, b, _ = jobmanagers
    fetcher = make_fetcher(a, b)
    a.pause()
    first = url_of(fetcher)
    a.resume()
    b.pause()

    assert (first, url_of(fetcher)) == (b.url, a.url)


def test_a_change_is_told_once(jobmanagers: Three, make_fetcher: MakeFetcher) -> None:
    a, b, _ = jobmanagers
    fetcher = make_fetcher(a, b)
    fetcher.fetch()

    with LogLines() as lines:
        a.pause()
        for _ in range(3):
            fetcher.fetch()

    (line,) = lines.of("jobmanager_changed")
    assert (line["cluster"], line["before"], line["now"]) == ("main", a.url, b.url)
    assert "connection refused" in line["error"]


def test_a_change_is_not_told_while_nobody_answers(jobmanagers: Three, make_fetcher: MakeFetcher) -> None:
    a, b, _ = jobmanagers
    fetcher = make_fetcher(a, b)
    a.pause()
    b.pause()

    with LogLines() as lines, pytest.raises(FlinkRestError):
        fetcher.fetch()

    assert lines.all() == []


def test_the_path_of_a_proxy_stays_in_front(make_fetcher: MakeFetcher) -> None:
    with FakeFlink() as flink:
        flink.fault("/flink/one/jobs/overview", Canned(b'{"jobs": []}'))

        job_list = make_fetcher(url=(f"{flink.url}/flink/one",)).fetch()

    assert job_list.jobs == ()
    assert flink.paths()[0] == "/flink/one/jobs/overview"
    assert all(path.startswith("/flink/one/") for path in flink.paths())


def test_a_replaced_token_is_used_in_the_next_pass(make_fetcher: MakeFetcher, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    with FakeFlink() as flink:
        fetcher = make_fetcher(flink, auth=BearerAuth(token_file=str(token)))
        fetcher.fetch()
        token.write_text("new")
        fetcher.fetch()

    lists_ = [request for request in flink.requests if request.path.endswith(LIST)]
    assert [request.headers["authorization"] for request in lists_] == ["Bearer old", "Bearer new"]


def test_a_token_that_was_replaced_during_the_pass_is_read_again_at_once(
    make_fetcher: MakeFetcher, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    with FakeFlink() as flink:
        flink.add_job("orders")
        flink.fault(LIST, flink_error(401, "token expired"), times=1)
        settings = BearerAuth(token_file=str(token))
        (context,) = make_fetcher(flink, meanwhile=lambda: token.write_text("new"), auth=settings).fetch().jobs

    assert context.endpoint.headers == (("Authorization", "Bearer new"),)
    assert [request.headers["authorization"] for request in flink.requests][:2] == ["Bearer old", "Bearer new"]


def test_a_token_that_is_the_same_is_not_tried_twice(make_fetcher: MakeFetcher, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("hunter2")
    with FakeFlink() as flink:
        flink.fault(LIST, flink_error(401, "go away"))
        with pytest.raises(FlinkRestError, match="HTTP 401: go away") as caught:
            make_fetcher(flink, auth=BearerAuth(token_file=str(token))).fetch()

    assert lists(flink) == [1]
    assert "hunter2" not in str(caught.value)


def test_a_missing_token_is_a_configuration_error_until_it_is_there(make_fetcher: MakeFetcher, tmp_path: Path) -> None:
    token = tmp_path / "token"
    with FakeFlink() as flink:
        fetcher = make_fetcher(flink, auth=BearerAuth(token_file=str(token)))
        with pytest.raises(ConfigError, match=r"cluster 'main': auth\.token-file"):
            fetcher.fetch()
        token.write_text("here")

        assert fetcher.fetch().jobs == ()
