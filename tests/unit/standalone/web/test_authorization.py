"""Who may look and who may order."""

from __future__ import annotations

import base64

import pytest

from flink_autoscaler.standalone.web.authorization import AccessRules, Principal, Role

TOKENS = AccessRules(viewer_token="look", operator_token="order")
PROXIED = AccessRules(user_header="x-user", proxies=frozenset({"10.0.0.0/8"}), operators=frozenset({"ann"}))


def basic(name: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@pytest.mark.parametrize(
    ("access", "headers", "address", "expected"),
    [
        pytest.param(AccessRules(), {}, None, (Role.VIEWER, "somebody"), id="nothing configured: everybody may look"),
        pytest.param(
            AccessRules(), {"authorization": "Bearer x"}, None, (Role.NOBODY, "api"), id="a token for nothing"
        ),
        pytest.param(TOKENS, {}, None, (Role.NOBODY, "somebody"), id="no token"),
        pytest.param(TOKENS, {"authorization": "Bearer look"}, None, (Role.VIEWER, "api"), id="the viewers' token"),
        pytest.param(TOKENS, {"authorization": "bearer order"}, None, (Role.OPERATOR, "api"), id="the operators' one"),
        pytest.param(TOKENS, {"authorization": "Bearer ordeR"}, None, (Role.NOBODY, "api"), id="a forged one"),
        pytest.param(TOKENS, basic("bob", "order"), None, (Role.OPERATOR, "bob"), id="as a password"),
        pytest.param(TOKENS, basic("bob", ""), None, (Role.NOBODY, "bob"), id="no password"),
        pytest.param(TOKENS, {"authorization": "Basic %%%"}, None, (Role.NOBODY, "page"), id="no base64"),
        pytest.param(PROXIED, {"x-user": "ann"}, "10.1.2.3", (Role.OPERATOR, "ann"), id="a proxy names an operator"),
        pytest.param(PROXIED, {"x-user": "bob"}, "10.1.2.3", (Role.VIEWER, "bob"), id="a proxy names another"),
        pytest.param(PROXIED, {"x-user": "ann"}, "11.1.2.3", (Role.NOBODY, "somebody"), id="no proxy of ours"),
        pytest.param(PROXIED, {}, "10.1.2.3", (Role.NOBODY, "somebody"), id="a proxy that names nobody"),
        pytest.param(PROXIED, {"x-user": "ann"}, "unix", (Role.NOBODY, "somebody"), id="no address"),
    ],
)
def test_a_visitor_has_the_role_that_is_proven(
    access: AccessRules, headers: dict[str, str], address: str | None, expected: tuple[Role, str]
) -> None:
    visitor = access.identify(headers, address)

    assert (visitor.role, visitor.name) == expected


@pytest.mark.parametrize(
    ("hosts", "host", "is_known"),
    [
        ((), "localhost:8484", True),
        ((), "127.0.0.1", True),
        ((), "[::1]:8484", True),
        ((), "evil.example", False),
        ((), "", False),
        ((), "localhost.evil.example", False),
        (("scaler.example",), "Scaler.Example:8484", True),
        (("*",), "anything", True),
    ],
)
def test_a_request_has_to_name_a_host_that_this_is(hosts: tuple[str, ...], host: str, is_known: bool) -> None:
    assert AccessRules(hosts=frozenset(hosts)).knows_host(host) is is_known


@pytest.mark.parametrize(
    ("changes", "is_refused"),
    [
        pytest.param({}, False, id="from a form of ours"),
        pytest.param({"x-form-token": "0" * 64}, True, id="a forged form"),
        pytest.param({"x-form-token": ""}, True, id="no form"),
        pytest.param({"sec-fetch-site": "cross-site"}, True, id="another site"),
        pytest.param({"sec-fetch-site": "same-site"}, True, id="a neighbour of ours"),
        pytest.param({"origin": "https://evil.example"}, True, id="a page of another host"),
        pytest.param({"origin": "https://scaler:8484"}, False, id="a page of ours"),
        pytest.param({"origin": "null"}, True, id="a page without a host"),
    ],
)
def test_a_browser_orders_from_pages_of_ours_only(changes: dict[str, str], is_refused: bool) -> None:
    visitor = Principal(Role.OPERATOR, "ann")
    headers = {"host": "scaler:8484", "x-form-token": TOKENS.form_token(visitor), **changes}

    assert (TOKENS.refusal(visitor, headers) is not None) is is_refused


def test_a_program_that_shows_its_token_needs_no_form() -> None:
    assert TOKENS.refusal(Principal(Role.OPERATOR, "api", has_ambient_credentials=False), {}) is None


def test_a_viewer_may_not_order() -> None:
    visitor = Principal(Role.VIEWER, "bob")
    refusal = TOKENS.refusal(visitor, {"x-form-token": TOKENS.form_token(visitor)})

    assert refusal == "orders need the role operator: see autoscaler.http.operator-token-file"


def test_the_form_of_one_visitor_is_not_that_of_another() -> None:
    ann, bob = Principal(Role.OPERATOR, "ann"), Principal(Role.OPERATOR, "bob")

    assert TOKENS.form_token(ann) != TOKENS.form_token(bob)
    assert TOKENS.form_token(ann) != AccessRules(operator_token="order").form_token(ann)
