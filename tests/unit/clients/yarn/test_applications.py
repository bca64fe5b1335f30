"""Which applications are managed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.clients.yarn import Application, ApplicationFilter, direct_url, proxy_url
from flink_autoscaler.clients.yarn import applications as decode
from flink_autoscaler.clients.yarn.applications import is_same_queue, origin
from flink_autoscaler.core.errors import ResponseError

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
    assert wanted.accepts(ORDERS) is is_taken


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

    assert wanted.accepts(application) is all(part.accepts(application) for part in parts)


@given(FILTERS, APPLICATIONS)
def test_the_query_leaves_out_nothing_that_is_taken(wanted: ApplicationFilter, application: Application) -> None:
    query = wanted.query()

    types, tags = query.get("applicationTypes"), query.get("applicationTags")
    is_answered = (
        (types is None or application.application_type.lower() in types.lower().split(","))
        and (tags is None or not application.tags.isdisjoint(tags.split(",")))
        and query.get("user") in (None, application.user)
    )
    assert is_answered or not wanted.accepts(application)


@given(FILTERS, APPLICATIONS)
def test_what_more_is_named_the_more_is_taken(wanted: ApplicationFilter, application: Application) -> None:
    wider = dataclasses.replace(wanted, users=wanted.users and (*wanted.users, application.user))

    assert wider.accepts(application) or not wanted.accepts(application)


@given(WORDS, WORDS)
def test_same_queue_is_symmetric(one: str, other: str) -> None:
    assert is_same_queue(one, other) is is_same_queue(other, one)
    assert is_same_queue(one, one)


FIXTURES = Path(__file__).parents[3] / "fixtures" / "yarn"
ONE = {"id": "application_1_1", "state": "RUNNING"}
TWO = {"id": "application_1_2", "state": "RUNNING"}


def recorded(name: str) -> object:
    return json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))


def ids(answer: object) -> list[str]:
    return [application.application_id for application in decode.decode_applications(answer).applications]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param({"apps": None}, [], id="none: null"),
        pytest.param({"apps": {}}, [], id="none: an empty object"),
        pytest.param({"apps": ""}, [], id="none: an empty text"),
        pytest.param({"apps": {"app": None}}, [], id="none: null inside"),
        pytest.param({"apps": {"app": []}}, [], id="none: an empty array"),
        pytest.param({}, [], id="none: nothing at all"),
        pytest.param({"apps": {"app": ONE}}, ["application_1_1"], id="one: the element alone"),
        pytest.param({"apps": {"app": [ONE]}}, ["application_1_1"], id="one: in an array"),
        pytest.param({"apps": {"app": [TWO, ONE]}}, ["application_1_2", "application_1_1"], id="two, in YARN's order"),
        pytest.param({"apps": {"app": [ONE, ONE]}}, ["application_1_1"], id="one twice"),
    ],
)
def test_list_of_applications_in_every_shape(answer: object, expected: list[str]) -> None:
    assert ids(answer) == expected


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(None, "null|None", id="null"),
        pytest.param([], "an object", id="an array"),
        pytest.param({"RemoteException": {"message": "no"}}, "RemoteException", id="an exception"),
        pytest.param({"apps": 7}, "apps", id="a number"),
        pytest.param({"apps": {"app": "x"}}, "apps.app", id="a text"),
    ],
)
def test_what_is_no_list_of_applications_is_refused(answer: object, words: str) -> None:
    with pytest.raises(ResponseError, match=words):
        decode.decode_applications(answer)


@pytest.mark.parametrize(
    ("entry", "key", "words"),
    [
        pytest.param(None, "application 1 of the list", "apps.app", id="null in the array"),
        pytest.param({}, "application 1 of the list", "application.id", id="no id"),
        pytest.param({"id": "../../x"}, "application 1 of the list", "application.id", id="an id that is none"),
        pytest.param({**ONE, "name": ["x"]}, "application_1_1", "application_1_1.name", id="a name that is none"),
        pytest.param({**ONE, "amRPCAddress": {}}, "application_1_1", "amRPCAddress", id="an address that is none"),
    ],
)
def test_what_is_no_application_concerns_no_other(entry: object, key: str, words: str) -> None:
    listed = decode.decode_applications({"apps": {"app": [TWO, entry]}})

    assert [each.application_id for each in listed.applications] == ["application_1_2"]
    assert list(listed.unreadable) == [key]
    assert words in str(listed.unreadable[key])


def test_recorded_application_is_read_whole() -> None:
    (application,) = decode.decode_applications(recorded("apps")).applications

    assert application == Application(
        application_id="application_1795201166617_0001",
        name="Orders session",
        user="alice",
        queue="orders",
        state="RUNNING",
        application_type="Apache Flink",
        tags=frozenset({"prod", "team-a"}),
        tracking_url="http://localhost:18088/proxy/application_1795201166617_0001/",
        am_rpc_address=application.am_rpc_address,
        am_logs=application.am_logs,
    )
    assert application.am_rpc_address.startswith("localhost:")
    assert "/container_" in application.am_logs


@pytest.mark.parametrize(
    ("name", "state", "has_ended"),
    [
        ("app", "RUNNING", False),
        ("app-failed", "FAILED", True),
        ("app-killed", "KILLED", True),
        ("app-between-attempts", "ACCEPTED", False),
        ("app-after-failover", "ACCEPTED", False),
        ("app-hidden", "RUNNING", False),
    ],
)
def test_recorded_single_applications(name: str, state: str, has_ended: bool) -> None:
    application = decode.decode_application(recorded(name))

    assert (application.state, application.has_ended) == (state, has_ended)


def test_hidden_and_unregistered_applications_have_no_address() -> None:
    for name in ("app-hidden", "app-between-attempts", "app-after-failover", "app-killed"):
        assert decode.decode_application(recorded(name)).am_rpc_address == ""


def test_missing_and_null_fields_are_empty() -> None:
    (application,) = decode.decode_applications(
        {"apps": {"app": [{"id": "application_1_1", "name": None}]}}
    ).applications

    assert application == Application("application_1_1")


def test_texts_that_look_like_numbers_may_be_numbers() -> None:
    entry = {**ONE, "name": 123, "user": 1001, "queue": 5, "applicationTags": 7, "unmanagedApplication": "true"}

    (application,) = decode.decode_applications({"apps": {"app": entry}}).applications

    assert (application.name, application.user, application.queue) == ("123", "1001", "5")
    assert (application.tags, application.is_unmanaged) == (frozenset({"7"}), True)


def test_halves_of_surrogate_pairs_become_printable() -> None:
    (application,) = decode.decode_applications({"apps": {"app": {**ONE, "name": "half \ud83d"}}}).applications

    assert application.name == "half ?"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(recorded("info"), "ACTIVE", id="active, recorded"),
        pytest.param(recorded("info-standby"), "STANDBY", id="standby, recorded"),
        pytest.param({"clusterInfo": {"haState": "active"}}, "ACTIVE", id="in lower case"),
        pytest.param({"clusterInfo": {}}, None, id="does not tell"),
        pytest.param({"clusterInfo": {"haState": 7}}, None, id="a number"),
        pytest.param({"clusterInfo": [{"haState": "ACTIVE"}]}, None, id="of a federation"),
        pytest.param([], None, id="an array"),
    ],
)
def test_state_of_a_resource_manager(answer: object, expected: str | None) -> None:
    assert decode.ha_state(answer) == expected


ID = "application_1_1"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("node-1.example.com:40875", "https://node-1.example.com:40875"),
        ("10.0.0.1:8081", "https://10.0.0.1:8081"),
        ("[::1]:8081", "https://[::1]:8081"),
        ("", None),
        ("N/A", None),
        ("N/A:-1", None),
        (":-1", None),
        ("null:0", None),
        ("node:65536", None),
        ("node", None),
        ("node:80/path", None),
        ("user@node:80", None),
        ("node:80:80", None),
        ("node :80", None),
        ("node:80\n", None),
    ],
)
def test_direct_url(address: str, expected: str | None) -> None:
    assert direct_url(Application(ID, am_rpc_address=address), "https") == expected


@pytest.mark.parametrize(
    ("tracking_url", "expected"),
    [
        (f"http://rm:8088/proxy/{ID}/", f"http://rm:8088/proxy/{ID}"),
        (f"https://rm:8090/proxy/{ID}", f"https://rm:8090/proxy/{ID}"),
        (f"https://gateway/yarn/proxy/{ID}/", f"https://gateway/yarn/proxy/{ID}"),
        ("", None),
        ("N/A", None),
        ("http://rm:8088/cluster/app/application_1_1", None),
        ("http://rm:8088/proxy/application_1_2/", None),
        (f"http://rm:8088/proxy/{ID}/../x", None),
        (f"ftp://rm/proxy/{ID}/", None),
        (f"file:///proxy/{ID}/", None),
        (f"rm:8088/proxy/{ID}/", None),
        (f"//rm:8088/proxy/{ID}/", None),
        (f"http:///proxy/{ID}/", None),
        (f"http://user:secret@rm/proxy/{ID}/", None),
        (f"http://rm:99999/proxy/{ID}/", None),
        (f"http://rm/proxy/{ID}/?x=1", None),
        (f"http://rm/proxy/{ID}/#x", None),
        (f"http://rm/ proxy/proxy/{ID}", None),
        (f"http://[rm/proxy/{ID}", None),
    ],
)
def test_proxy_url(tracking_url: str, expected: str | None) -> None:
    assert proxy_url(Application(ID, tracking_url=tracking_url)) == expected


def test_an_unmanaged_application_master_has_made_up_its_tracking_url_itself() -> None:
    application = Application(ID, tracking_url=f"http://elsewhere/proxy/{ID}/", is_unmanaged=True)

    assert proxy_url(application) is None


@given(st.text(), st.text())
def test_any_text_is_a_url_of_the_web_or_nothing(address: str, tracking_url: str) -> None:
    application = Application(ID, am_rpc_address=address, tracking_url=tracking_url)

    for url in (direct_url(application, "http"), proxy_url(application)):
        assert url is None or url.startswith(("http://", "https://"))


def test_origins_know_the_usual_ports() -> None:
    assert origin("http://RM/x") == origin("http://rm:80") == ("http", "rm", 80)
    assert origin("https://rm") == ("https", "rm", 443)
