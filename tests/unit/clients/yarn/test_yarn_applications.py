"""Which applications are looked after."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.clients.yarn import Application, ApplicationFilter
from flink_autoscaler.clients.yarn.applications import is_same_queue

ORDERS = Application(
    "application_1_1",
    name="prod-orders",
    user="alice",
    queue="root.streaming.orders",
    state="RUNNING",
    application_type="Apache Flink",
    tags=frozenset({"prod", "team-a"}),
)
WORDS = st.sampled_from(
    ["prod", "Prod", "team-a", "alice", "root.streaming.orders", "orders", "prod-*", "*", "", "a,b"]
)
LISTS = st.lists(WORDS, max_size=3).map(tuple)
FILTERS = st.builds(ApplicationFilter, types=LISTS, queues=LISTS, users=LISTS, tags=LISTS, names=LISTS)
APPLICATIONS = st.builds(
    Application,
    st.just("application_1_1"),
    name=WORDS,
    user=WORDS,
    queue=WORDS,
    application_type=WORDS,
    tags=st.frozensets(WORDS.map(str.lower), max_size=2),
)


@pytest.mark.parametrize(
    ("wanted", "is_taken"),
    [
        pytest.param(ApplicationFilter(), True, id="nothing is asked for"),
        pytest.param(ApplicationFilter(types=("apache flink",)), True, id="type in another case"),
        pytest.param(ApplicationFilter(types=("Flink",)), False, id="part of the type"),
        pytest.param(ApplicationFilter(types=("Spark", "Apache Flink")), True, id="one of two types"),
        pytest.param(ApplicationFilter(queues=("root.streaming.orders",)), True, id="queue by path"),
        pytest.param(ApplicationFilter(queues=("streaming.orders",)), True, id="queue by path without root"),
        pytest.param(ApplicationFilter(queues=("orders",)), True, id="queue by last name"),
        pytest.param(ApplicationFilter(queues=("streaming",)), False, id="parent of the queue"),
        pytest.param(ApplicationFilter(queues=("root.batch.orders",)), False, id="queue of the same last name"),
        pytest.param(ApplicationFilter(users=("alice",)), True, id="user"),
        pytest.param(ApplicationFilter(users=("Alice",)), False, id="user in another case"),
        pytest.param(ApplicationFilter(tags=("PROD", "x")), True, id="one of the tags, in another case"),
        pytest.param(ApplicationFilter(tags=("x",)), False, id="another tag"),
        pytest.param(ApplicationFilter(names=("x", "prod-*")), True, id="one of the patterns"),
        pytest.param(ApplicationFilter(names=("PROD-*",)), False, id="pattern in another case"),
        pytest.param(ApplicationFilter(names=("orders",)), False, id="part of the name"),
        pytest.param(ApplicationFilter(users=("alice",), names=("test-*",)), False, id="one filter of two"),
    ],
)
def test_filters(wanted: ApplicationFilter, is_taken: bool) -> None:
    assert wanted.takes(ORDERS) is is_taken


@pytest.mark.parametrize(
    ("configured", "shown", "expected"),
    [
        ("root.a.batch", "batch", True),
        ("root.a.batch", "root.a.batch", True),
        ("root.a.batch", "root.b.batch", False),
        ("batch", "root.a.batch", True),
        ("default", "root.default", True),
        ("root", "root", True),
        ("root.a", "a.b", False),
    ],
)
def test_queues_have_paths_and_last_names(configured: str, shown: str, expected: bool) -> None:
    assert is_same_queue(configured, shown) is expected


def test_query_names_what_is_safe_to_name() -> None:
    wanted = ApplicationFilter(
        types=("Apache Flink", "Other"), queues=("q",), users=("alice",), tags=("Prod", "Team"), names=("x*",)
    )

    assert wanted.query() == {
        "states": "RUNNING",
        "deSelects": "resourceRequests",
        "applicationTypes": "Apache Flink,Other",
        "applicationTags": "prod,team",
        "user": "alice",
    }


def test_query_leaves_out_what_could_be_misread() -> None:
    wanted = ApplicationFilter(types=("a,b",), users=("alice", "bob"), tags=("a,b",))

    assert wanted.query().keys() == {"states", "deSelects"}


@given(FILTERS, APPLICATIONS)
def test_a_filter_takes_what_each_of_its_parts_takes(wanted: ApplicationFilter, application: Application) -> None:
    parts = [
        ApplicationFilter(**{field.name: getattr(wanted, field.name)})
        for field in dataclasses.fields(ApplicationFilter)
    ]

    assert wanted.takes(application) is all(part.takes(application) for part in parts)


@given(FILTERS, APPLICATIONS)
def test_the_query_leaves_out_nothing_that_is_taken(wanted: ApplicationFilter, application: Application) -> None:
    query = wanted.query()

    types, tags = query.get("applicationTypes"), query.get("applicationTags")
    is_answered = (
        (types is None or application.application_type.lower() in types.lower().split(","))
        and (tags is None or not application.tags.isdisjoint(tags.split(",")))
        and query.get("user") in (None, application.user)
    )
    assert is_answered or not wanted.takes(application)


@given(FILTERS, APPLICATIONS)
def test_what_more_is_named_the_more_is_taken(wanted: ApplicationFilter, application: Application) -> None:
    wider = dataclasses.replace(wanted, users=wanted.users and (*wanted.users, application.user))

    assert wider.takes(application) or not wanted.takes(application)


@given(WORDS, WORDS)
def test_same_queue_is_symmetric(one: str, other: str) -> None:
    assert is_same_queue(one, other) is is_same_queue(other, one)
    assert is_same_queue(one, one)
