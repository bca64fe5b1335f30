from __future__ import annotations

import base64
import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint, Kerberos
from flink_autoscaler.standalone.settings.credentials import Credentials
from flink_autoscaler.standalone.settings.schema.clusters import (
    AccessSettings,
    BearerAuth,
    TlsSettings,
    YarnSettings,
)

ENDPOINT = Endpoint("https://flink:8081")


def secured(settings: AccessSettings) -> Endpoint:
    return Credentials(settings, "cluster 'main': ").with_credentials(ENDPOINT)


def auth(kind: str, **others: Any) -> AccessSettings:
    return AccessSettings.model_validate({"auth": {"kind": kind, **others}})


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("  first-token \nsecond line\n")
    return file


def test_without_access_settings_the_endpoint_is_as_before() -> None:
    assert secured(AccessSettings()) == ENDPOINT


def test_basic_authentication_takes_user_and_password(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("pässword: with blanks\n")

    endpoint = secured(auth("basic", username="me", password_file=str(tmp_path / "password")))

    pair = base64.b64encode("me:pässword: with blanks".encode()).decode()
    assert endpoint.headers == (("Authorization", f"Basic {pair}"),)


def test_a_password_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_PASSWORD", "open sesame")

    endpoint = secured(auth("basic", username="me", password_env_variable="FLINK_PASSWORD"))

    assert endpoint.headers == (("Authorization", "Basic " + base64.b64encode(b"me:open sesame").decode()),)


def test_a_token_is_the_first_line_of_its_file(token: Path) -> None:
    endpoint = secured(auth("bearer", token_file=str(token)))

    assert endpoint.headers == (("Authorization", "Bearer first-token"),)


def test_a_replaced_token_makes_another_endpoint(token: Path) -> None:
    access = Credentials(auth("bearer", token_file=str(token)), "")
    before = access.with_credentials(ENDPOINT)

    same = access.with_credentials(ENDPOINT)
    token.write_text("next-token\n")
    after = access.with_credentials(ENDPOINT)

    assert same == before
    assert after.headers == (("Authorization", "Bearer next-token"),)


def test_headers_come_from_three_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "value").write_text("from file\n")
    monkeypatch.setenv("TENANT", "from environment")

    settings = AccessSettings(
        headers={"X-A": "plain"}, headers_env={"X-B": "TENANT"}, headers_file={"X-C": str(tmp_path / "value")}
    )

    assert secured(settings).headers == (("X-A", "plain"), ("X-B", "from environment"), ("X-C", "from file"))


def test_simple_authentication_names_the_user() -> None:
    assert secured(auth("simple", username="alice")) == dataclasses.replace(ENDPOINT, user_name="alice")


def test_kerberos_is_handed_on() -> None:
    endpoint = secured(auth("kerberos", principal="me@REALM", keytab="/k", service_host="rm"))

    assert endpoint.kerberos == Kerberos(principal="me@REALM", keytab="/k", service="HTTP", host="rm")


def test_a_delegation_token_is_a_header_of_resourcemanagers(token: Path) -> None:
    endpoint = secured(YarnSettings(delegation_token_file=str(token)))

    assert endpoint.headers == (("Hadoop-YARN-RM-Delegation-Token", "first-token"),)


def test_certificates_are_handed_on_with_the_password_of_the_key(tmp_path: Path, token: Path) -> None:
    settings = AccessSettings(
        tls=TlsSettings(
            ca_file="/ca", certificate_file="/c", key_file="/k", key_password_file=str(token), verify_host=False
        )
    )

    tls = secured(settings).tls

    assert (tls.ca_file, tls.certificate_file, tls.key_file, tls.key_password) == ("/ca", "/c", "/k", "first-token")
    assert not tls.verify_host


def test_a_renewed_certificate_makes_another_endpoint(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("old")
    access = Credentials(AccessSettings(tls=TlsSettings(ca_file=str(file))), "")
    before = access.with_credentials(ENDPOINT)

    same = access.with_credentials(ENDPOINT)
    renewed = tmp_path / "renewed.pem"
    renewed.write_text("new")
    os.replace(renewed, file)

    assert same == before
    assert access.with_credentials(ENDPOINT) != before


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            auth("bearer", token_file="/no/such"),
            "cluster 'main': auth.token-file: /no/such: No such file or directory; expected a file that the user of the"
            " daemon can read",
            id="no file",
        ),
        pytest.param(
            auth("bearer", token_env_variable="NOT_SET_ANYWHERE"),
            "cluster 'main': auth.token-env-variable: the environment variable NOT_SET_ANYWHERE is not set or blank;"
            " set it for the daemon",
            id="no variable",
        ),
        pytest.param(
            AccessSettings(headers_file={"X-A": "/no/such"}),
            "cluster 'main': headers-file.X-A: /no/such: No such file or directory; expected a file that the user of"
            " the daemon can read",
            id="header",
        ),
        pytest.param(
            auth("basic", username="me"),
            "cluster 'main': auth.password-file or auth.password-env-variable is not set",
            id="no source",
        ),
    ],
)
def test_a_secret_that_is_not_there_is_an_error_that_names_the_key(settings: AccessSettings, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        secured(settings)

    assert str(caught.value) == expected


@pytest.mark.parametrize(
    "content", [b"", b"\nsecond", b"  \n", b"\xff\xfe\n"], ids=["empty", "blank", "spaces", "bytes"]
)
def test_a_file_without_a_secret_is_an_error(token: Path, content: bytes) -> None:
    token.write_bytes(content)

    with pytest.raises(ConfigError, match=r"auth\.token-file"):
        secured(auth("bearer", token_file=str(token)))


def test_no_secret_is_in_a_message_or_representation(token: Path) -> None:
    access = Credentials(
        AccessSettings(
            auth=BearerAuth(token_file=str(token)),
            headers={"X-Key": "hunter2"},
            tls=TlsSettings(key_password_file=str(token)),
        ),
        "",
    )

    endpoint = access.with_credentials(ENDPOINT)

    assert "first-token" not in repr(endpoint)
    assert "hunter2" not in repr(endpoint)
    assert "hunter2" not in repr(access)
