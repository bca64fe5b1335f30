"""Jobs whose entry in the list cannot be read: they are there, keep their keys, and nobody else gets those."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.core.errors import ConfigError, FlinkRestError
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.fetchers.flink import FlinkClusterFetcher
from flink_autoscaler.standalone.settings.schema.clusters import BearerAuth
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import Canned, FakeFlink, Fault, chain, flink_error
from testkit.fakes.flink.answers import overview
from testkit.fakes.flink.fetching import MakeFetcher
from testkit.scenarios.runner import LogLines


def _config_requests(flink: FakeFlink) -> int:
    return sum(path.endswith("/jobmanager/config") for path in flink.paths())


def test_fetch_gives_the_context_of_every_job(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    job = flink.add_job("orders")
    fetcher = make_fetcher(flink)

    (context,) = fetcher.fetch().jobs

    assert (context.job_key, context.job_id, context.job_name) == ("main/orders", job.job_id, "orders")
    assert (context.cluster, context.endpoint, context.status) == ("main", flink.endpoint(), JobStatus.RUNNING)


def test_running_job_with_tasks_missing_counts_as_created(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    flink.add_job("orders", tasks={"running": 2, "total": 3})

    (context,) = make_fetcher(flink).fetch().jobs

    assert context.status is JobStatus.CREATED


def test_configuration_is_remembered_between_passes(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    flink.add_job("orders")
    flink.add_job("payments")
    fetcher = make_fetcher(flink)

    for _ in range(3):
        fetcher.fetch()

    assert flink.paths().count("/jobs/overview") == 3
    assert _config_requests(flink) == 2


def test_configuration_is_read_again_when_the_job_changed(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    job = flink.add_job("orders")
    fetcher = make_fetcher(flink)
    fetcher.fetch()

    job.configuration["job.autoscaler.enabled"] = "true"
    job.running_at_ms += 1000
    (context,) = fetcher.fetch().jobs

    assert context.configuration["job.autoscaler.enabled"] == "true"


def test_unreadable_job_is_read_in_the_next_pass(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    flink.add_job("orders")
    flink.fault("/jobmanager/config", Canned(b"{}", status=500), times=3)
    fetcher = make_fetcher(flink)

    first, second = fetcher.fetch(), fetcher.fetch()
    while second.unreadable:
        second = fetcher.fetch()

    assert list(first.unreadable) == ["main/orders"]
    assert [context.job_key for context in second.jobs] == ["main/orders"]


@pytest.mark.parametrize(
    "fault", [Fault.HANG, Fault.HTML, Fault.TRUNCATED_JSON, Fault.RESET, Fault.HUGE, Canned(b"{}", status=500)]
)
def test_list_that_cannot_be_read_is_an_error(
    flink: FakeFlink, make_fetcher: MakeFetcher, fault: Fault | Canned
) -> None:
    flink.add_job("orders")
    flink.fault("/jobs/overview", fault)

    with pytest.raises(FlinkRestError):
        make_fetcher(flink, timeout=0.5).fetch()


def test_fetch_works_again_after_an_error(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    flink.add_job("orders")
    fetcher = make_fetcher(flink, timeout=60.0)
    flink.pause()
    with pytest.raises(FlinkRestError):
        fetcher.fetch()

    flink.resume()

    assert len(fetcher.fetch().jobs) == 1


def test_many_configurations_are_read_at_once_within_the_limit(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    for number in range(40):
        flink.add_job(f"job {number}", chain(vertices=1))
    flink.delay = 0.02

    job_list = make_fetcher(flink).fetch()

    assert len(job_list.jobs) == 40
    assert 1 < flink.most_at_once <= flink.endpoint().max_connections


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


class Listing:
    """A cluster and who lists it; ``spoil`` changes entries of the next lists."""

    def __init__(self, flink: FakeFlink, fetcher: FlinkClusterFetcher) -> None:
        self.flink, self._fetcher = flink, fetcher

    def fetch(self, spoiled: dict[int, object] | None = None) -> JobList:
        """Return the list; entries are replaced by their place, or updated where a dict is given."""
        answer: Any = overview(list(self.flink.jobs.values()))
        changes = spoiled or {}
        answer["jobs"] = [_spoilt(entry, changes.get(place, {})) for place, entry in enumerate(answer["jobs"])]
        self.flink.fault("/jobs/overview", Canned.json(answer), times=1)
        return self._fetcher.fetch()


def _spoilt(entry: dict[str, Any], change: object) -> object:
    return {**entry, **change} if isinstance(change, dict) else change


@pytest.fixture
def listing(flink: FakeFlink, make_fetcher: MakeFetcher) -> Listing:
    return Listing(flink, make_fetcher(flink))


def keys(job_list: JobList) -> list[str]:
    return [context.job_key for context in job_list.jobs]


@pytest.mark.parametrize("change", [{"tasks": ""}, {"state": None}], ids=str)
def test_a_job_with_an_unreadable_entry_is_present_under_its_key(listing: Listing, change: dict[str, object]) -> None:
    listing.flink.add_job("sick")
    listing.flink.add_job("well")

    job_list = listing.fetch({0: change})

    assert keys(job_list) == ["main/well"]
    assert list(job_list.unreadable) == ["main/sick"]
    assert job_list.problems == {}


def test_a_job_that_claims_the_id_of_another_one_leaves_that_one_alone(listing: Listing) -> None:
    listing.flink.add_job("sick")
    well = listing.flink.add_job("well")
    listing.fetch()

    job_list = listing.fetch({0: {"jid": well.job_id}})

    assert keys(job_list) == ["main/well"]
    assert list(job_list.unreadable) == ["main/sick"]
    assert "in the list twice" in str(job_list.unreadable["main/sick"])


def test_of_two_entries_with_the_same_id_and_name_none_is_believed(listing: Listing) -> None:
    well = listing.flink.add_job("well")
    listing.flink.add_job("sick")
    listing.fetch()

    job_list = listing.fetch({1: {"jid": well.job_id, "name": "well", "state": "FAILED"}})

    assert keys(job_list) == []
    assert set(job_list.unreadable) >= {"main/well"}


def test_a_job_whose_name_cannot_be_read_any_more_is_known_by_its_id(listing: Listing) -> None:
    listing.flink.add_job("sick")
    listing.fetch()

    job_list = listing.fetch({0: {"name": 5}})

    assert (keys(job_list), list(job_list.unreadable), job_list.problems) == ([], ["main/sick"], {})


@pytest.mark.parametrize("spoilt", [0, 1], ids=["the first", "the second"])
def test_nobody_gets_the_key_of_a_job_of_the_same_name_that_cannot_be_read(listing: Listing, spoilt: int) -> None:
    first = listing.flink.add_job("twin")
    second = listing.flink.add_job("twin", start_ms=first.start_ms + 1)
    before = listing.fetch()

    job_list = listing.fetch({spoilt: {"tasks": 5}})

    assert keys(before) == ["main/twin", f"main/twin#{second.job_id}"]
    assert keys(job_list) == [keys(before)[1 - spoilt]]
    assert list(job_list.unreadable) == [keys(before)[spoilt]]


@pytest.mark.parametrize("entry", [None, 5, {"jid": "x"}], ids=str)
def test_while_an_entry_is_nobodys_every_missing_job_may_be_it(listing: Listing, entry: object) -> None:
    listing.flink.add_job("sick")
    listing.flink.add_job("well")
    listing.fetch()

    job_list = listing.fetch({0: entry})
    again = listing.fetch({0: entry})
    healed = listing.fetch()

    for each in (job_list, again):
        assert keys(each) == ["main/well"]
        assert list(each.unreadable) == ["main/sick"]
        assert list(each.problems) == ["entry 1 of the list of jobs"]
    assert (keys(healed), healed.unreadable, healed.problems) == (["main/sick", "main/well"], {}, {})


def test_an_entry_that_never_had_a_name_keeps_everybody_from_being_gone(listing: Listing) -> None:
    listing.flink.add_job("sick")
    listing.flink.add_job("well")

    job_list = listing.fetch({0: None})

    assert keys(job_list) == ["main/well"]
    assert (job_list.unreadable, list(job_list.problems)) == ({}, ["entry 1 of the list of jobs"])


def test_a_job_left_out_by_its_name_is_left_out_unreadable_as_well(flink: FakeFlink, make_fetcher: MakeFetcher) -> None:
    flink.add_job("sick one")

    job_list = Listing(flink, make_fetcher(flink, exclude=("sick*",))).fetch({0: {"tasks": ""}})

    assert not job_list.unreadable
    assert job_list.left_out == {"main/sick one"}
