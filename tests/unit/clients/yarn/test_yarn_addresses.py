"""Nothing that an ApplicationMaster has registered goes into a URL unchecked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.clients.yarn import Application, direct_url, proxy_url
from flink_autoscaler.clients.yarn.applications import origin

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
