"""Every shape that the JSON of a ResourceManager has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flink_autoscaler.clients.yarn import Application
from flink_autoscaler.clients.yarn import applications as decode
from flink_autoscaler.core.errors import ResponseError

FIXTURES = Path(__file__).parents[3] / "fixtures" / "yarn"
ONE = {"id": "application_1_1", "state": "RUNNING"}
TWO = {"id": "application_1_2", "state": "RUNNING"}


def recorded(name: str) -> object:
    return json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))


def ids(answer: object) -> list[str]:
    return [application.application_id for application in decode.applications(answer).applications]


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
        decode.applications(answer)


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
    listed = decode.applications({"apps": {"app": [TWO, entry]}})

    assert [each.application_id for each in listed.applications] == ["application_1_2"]
    assert list(listed.unreadable) == [key]
    assert words in str(listed.unreadable[key])


def test_recorded_application_is_read_whole() -> None:
    (application,) = decode.applications(recorded("apps")).applications

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
    application = decode.application(recorded(name))

    assert (application.state, application.has_ended) == (state, has_ended)


def test_hidden_and_unregistered_applications_have_no_address() -> None:
    for name in ("app-hidden", "app-between-attempts", "app-after-failover", "app-killed"):
        assert decode.application(recorded(name)).am_rpc_address == ""


def test_missing_and_null_fields_are_empty() -> None:
    (application,) = decode.applications({"apps": {"app": [{"id": "application_1_1", "name": None}]}}).applications

    assert application == Application("application_1_1")


def test_texts_that_look_like_numbers_may_be_numbers() -> None:
    entry = {**ONE, "name": 123, "user": 1001, "queue": 5, "applicationTags": 7, "unmanagedApplication": "true"}

    (application,) = decode.applications({"apps": {"app": entry}}).applications

    assert (application.name, application.user, application.queue) == ("123", "1001", "5")
    assert (application.tags, application.is_unmanaged) == (frozenset({"7"}), True)


def test_halves_of_surrogate_pairs_become_printable() -> None:
    (application,) = decode.applications({"apps": {"app": {**ONE, "name": "half \ud83d"}}}).applications

    assert application.name == "half ?"


def test_of_an_application_that_is_listed_twice_the_one_with_an_address_counts() -> None:
    registered = {**ONE, "amRPCAddress": "node:1"}

    for entries in ([ONE, registered], [registered, ONE]):
        (application,) = decode.applications({"apps": {"app": entries}}).applications
        assert application.am_rpc_address == "node:1"


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
