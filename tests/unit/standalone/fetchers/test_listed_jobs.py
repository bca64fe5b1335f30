"""Jobs whose entry in the list cannot be read: they are there, keep their keys, and nobody else gets those."""

from __future__ import annotations

from typing import Any

import pytest

from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.fetchers.flink import FlinkClusterFetcher
from testkit.fakes.flink import Canned, FakeFlink
from testkit.fakes.flink.answers import overview
from testkit.fakes.flink.fetching import MakeFetcher


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
