"""Kerberos tickets from a real KDC, shown to a real acceptor."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import importlib
import logging
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from flink_autoscaler.clients.auth.authentication import KerberosAuthenticator, KerberosProof, authenticator_for
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, ConnectError
from flink_autoscaler.core.model.job import Endpoint, Kerberos
from testkit.clusters.flink.waiting import wait_until
from testkit.servers.kerberos import REALM, Identity, Realm, SilentPort

pytestmark = pytest.mark.suite(name="services")
pytest_plugins = ["testkit.servers.kerberos.fixtures"]


T = TypeVar("T")

URL = "http://localhost:8088"
OFFER = "Negotiate"


def endpoint(who: Identity | None = None, **kerberos: Any) -> Endpoint:
    values = {"principal": who.principal, "keytab": str(who.keytab)} if who else {}
    return Endpoint(URL, timeout=20.0, kerberos=Kerberos(**{**values, **kerberos}))


def authenticator(who: Identity | None = None, **kerberos: Any) -> KerberosAuthenticator:
    made = authenticator_for(endpoint(who, **kerberos))
    assert made is not None
    return made


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def answered(who: Identity | None = None, *, url: str = URL, **kerberos: Any) -> KerberosProof:
    return run(authenticator(who, **kerberos).answer(url, OFFER))


class Acceptor:
    """The other side of SPNEGO, without HTTP."""

    def __init__(self, keytab: Path) -> None:
        self._gssapi = importlib.import_module("gssapi")  # only here: the extra may be missing
        self._credentials = self._gssapi.Credentials(usage="accept", store={"keytab": str(keytab)})

    def accept(self, proof: KerberosProof) -> tuple[str, str]:
        """Return who showed the proof, and the challenge that shows who accepted it."""
        scheme, _, token = proof.headers["authorization"].partition(" ")
        assert scheme == "Negotiate"
        context = self._gssapi.SecurityContext(creds=self._credentials, usage="accept")
        reply = context.step(base64.b64decode(token))
        return str(context.initiator_name), f"Negotiate {base64.b64encode(reply or b'').decode()}"


def failure(who: Identity | None = None, *, url: str = URL, **kerberos: Any) -> AutoscalerError:
    with pytest.raises((ConfigError, ConnectError)) as caught:
        answered(who, url=url, **kerberos)
    return caught.value


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)

    with pytest.raises(ConfigError, match=r"pip install 'flink-autoscaler\[kerberos\]'"):
        authenticator_for(endpoint())


@pytest.mark.usefixtures("realm")
def test_server_that_does_not_ask_for_kerberos_gets_no_token() -> None:
    with pytest.raises(ConnectError, match="does not ask for Kerberos"):
        run(authenticator().answer(URL, 'Basic realm="x"'))


def test_keytab_proves_the_principal_and_the_server_proves_itself(realm: Realm, identity: Identity) -> None:
    proof = answered(identity)

    who, challenge = Acceptor(realm.keytab("HTTP/localhost")).accept(proof)
    proof.check(challenge)

    assert who == f"{identity.principal}@{REALM}"


def test_keytab_without_principal_takes_its_first_one(realm: Realm, identity: Identity) -> None:
    proof = answered(identity, principal=None)

    assert Acceptor(realm.keytab("HTTP/localhost")).accept(proof)[0] == f"{identity.principal}@{REALM}"


@pytest.mark.parametrize("is_named", [pytest.param(True, id="by its name"), pytest.param(False, id="whoever it is")])
def test_ticket_cache_proves_who_logged_in(realm: Realm, identity: Identity, is_named: bool) -> None:
    realm.log_in(identity.principal, identity.keytab)

    proof = answered(principal=identity.principal if is_named else None)

    assert Acceptor(realm.keytab("HTTP/localhost")).accept(proof)[0] == f"{identity.principal}@{REALM}"


def test_host_is_taken_as_it_is_written(realm: Realm, identity: Identity) -> None:
    realm.add("HTTP/127.0.0.1")  # DNS would make localhost of it

    proof = answered(identity, url="http://127.0.0.1:8088")

    assert Acceptor(realm.keytab("HTTP/127.0.0.1")).accept(proof)[0] == f"{identity.principal}@{REALM}"


def test_service_host_replaces_the_host_of_the_url(realm: Realm, identity: Identity) -> None:
    realm.add("HTTP/rm.flink.test")

    proof = answered(identity, host="rm.flink.test")

    assert Acceptor(realm.keytab("HTTP/rm.flink.test")).accept(proof)[0] == f"{identity.principal}@{REALM}"


@pytest.mark.parametrize(
    "challenge",
    [
        pytest.param("Negotiate bm90IGEgdG9rZW4=", id="not a token"),
        pytest.param("Negotiate YQ===", id="not base64"),
    ],
)
def test_server_that_shows_nonsense_is_not_believed(identity: Identity, challenge: str) -> None:
    proof = answered(identity)

    with pytest.raises(ConnectError, match="HTTP/localhost"):
        proof.check(challenge)


def test_server_that_shows_somebody_elses_proof_is_not_believed(realm: Realm, identity: Identity) -> None:
    acceptor = Acceptor(realm.keytab("HTTP/localhost"))
    other_challenge = acceptor.accept(answered(identity))[1]

    with pytest.raises(ConnectError, match="HTTP/localhost"):
        answered(identity).check(other_challenge)


def test_server_that_shows_nothing_is_accepted(identity: Identity) -> None:
    answered(identity).check("")


def test_parallel_first_requests_ask_the_kdc_once(realm: Realm, identity: Identity) -> None:
    async def sixteen() -> list[KerberosProof]:
        made = authenticator(identity)
        return await asyncio.gather(*(made.answer(URL, OFFER) for _ in range(16)))

    proofs = run(sixteen())

    assert len({proof.headers["authorization"] for proof in proofs}) == 16  # servers refuse a token shown before
    assert realm.requests("AS_REQ", identity.principal) == 1
    assert realm.requests("TGS_REQ", identity.principal) == 1


def test_endpoints_of_one_identity_share_the_first_ticket(realm: Realm, identity: Identity) -> None:
    answered(identity)
    answered(identity)

    assert realm.requests("AS_REQ", identity.principal) == 1
    assert realm.requests("TGS_REQ", identity.principal) == 1


def test_expired_ticket_is_fetched_anew_with_the_keytab(realm: Realm) -> None:
    identity = realm.new_identity(longest_life=1)
    answered(identity)
    made = authenticator(identity)

    def is_renewed() -> bool:
        run(made.answer(URL, OFFER))
        return realm.requests("AS_REQ", identity.principal) >= 3

    wait_until("two more tickets", is_renewed, 300, interval=0.1)


def test_ticket_is_renewed_before_it_expires_and_used_while_the_kdc_is_gone(realm: Realm) -> None:
    identity = realm.new_identity(longest_life=10)
    made = authenticator(identity)
    run(made.answer(URL, OFFER))
    realm.stop()

    try:
        begin = time.monotonic()
        while time.monotonic() < begin + 8.5:  # the attempt to renew falls into this time
            run(made.answer(URL, OFFER))
            time.sleep(0.25)
    finally:
        realm.start()


def test_child_process_begins_anew(realm: Realm, identity: Identity) -> None:
    answered(identity)

    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.apply(_answer_travelled, (pickle.dumps(endpoint(identity)),))

    assert realm.requests("AS_REQ", identity.principal) == 2


def _answer_travelled(travelled: bytes) -> None:
    made = authenticator_for(pickle.loads(travelled))
    assert made is not None
    run(made.answer(URL, OFFER))


def test_silent_kdc_holds_up_neither_the_loop_nor_the_request(realm: Realm, identity: Identity) -> None:
    realm.stop()
    gaps: list[float] = []
    waits: list[float] = []

    async def tick() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - last)
            last = time.monotonic()

    async def ask() -> None:
        ticking = asyncio.create_task(tick())
        made = authenticator_for(dataclasses.replace(endpoint(identity), timeout=12.0))
        assert made is not None
        for _ in range(3):  # as a request that is retried
            begin = time.monotonic()
            with pytest.raises(ConnectError, match=r"no ticket for HTTP/localhost within 6 s: a KDC does not answer"):
                await made.answer(URL, OFFER)
            waits.append(time.monotonic() - begin)
        ticking.cancel()

    try:
        with SilentPort(realm.port):
            run(ask())
    finally:
        realm.start()

    assert max(waits[1:]) < waits[0]  # the second and third find out nothing anew
    assert max(gaps) < waits[0]


def test_kdc_that_is_gone_is_an_error_that_passes(realm: Realm, identity: Identity) -> None:
    realm.stop()
    try:
        error = failure(identity)
    finally:
        realm.start()

    assert isinstance(error, ConnectError)
    assert "no KDC can be reached" in str(error)
    assert REALM in str(error)
    answered(identity)


def test_unknown_server_names_principal_and_key(identity: Identity) -> None:
    error = failure(identity, url="http://rm7:8088")

    assert isinstance(error, ConfigError)
    assert "HTTP/rm7@" in str(error)
    assert "auth.service-host has to be the host exactly as in that principal" in str(error)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        pytest.param("none.keytab", None, "there is no file", id="missing"),
        pytest.param("text.keytab", b"hello", "is not a keytab", id="another file"),
        pytest.param("empty.keytab", b"", "is not a keytab", id="empty"),
        pytest.param(".", None, "is a folder", id="folder"),
    ],
)
def test_unusable_keytab_is_explained(
    realm: Realm, tmp_path: Path, name: str, content: bytes | None, expected: str
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)

    error = failure(principal="scaler", keytab=str(file))

    assert isinstance(error, ConfigError)
    assert expected in str(error)
    assert str(file) in str(error)


def test_keytab_of_somebody_else_is_explained(identity: Identity) -> None:
    error = failure(identity, principal="somebody")

    assert isinstance(error, ConfigError)
    assert "has no key of somebody" in str(error)
    assert "auth.principal" in str(error)


def test_principal_that_the_kdc_does_not_know_is_explained(realm: Realm, identity: Identity) -> None:
    realm.remove(identity.principal)

    error = failure(identity)

    assert isinstance(error, ConfigError)
    assert f"does not know the principal {identity.principal}" in str(error)


def test_key_that_was_changed_is_explained(realm: Realm, identity: Identity) -> None:
    realm.change_key(identity.principal)

    error = failure(identity)

    assert isinstance(error, ConfigError)
    assert "export the keytab anew" in str(error)


@pytest.mark.parametrize("principal", [pytest.param(None, id="any"), pytest.param("scaler", id="of a principal")])
def test_missing_ticket_cache_is_explained(realm: Realm, principal: str | None) -> None:
    error = failure(principal=principal)

    assert isinstance(error, ConnectError)
    assert "run kinit" in str(error)
    assert "auth.keytab" in str(error)


def test_expired_ticket_in_the_cache_is_explained_and_kinit_helps(realm: Realm, identity: Identity) -> None:
    realm.log_in(identity.principal, identity.keytab, life="1s")
    made = authenticator()

    def error() -> str:
        try:
            run(made.answer(URL, OFFER))
        except ConnectError as exc:
            return str(exc)
        return ""

    words = wait_until("the ticket has expired", error, 300, interval=0.1)
    realm.log_in(identity.principal, identity.keytab)

    assert "has expired: run kinit" in words
    run(made.answer(URL, OFFER))


def test_realm_that_is_configured_nowhere_is_explained(
    identity: Identity, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "none.conf"))

    error = failure(identity)

    assert isinstance(error, ConfigError)
    assert "krb5.conf" in str(error)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(13, "may not be read", id="no permission"),
        pytest.param(-1765328347, "synchronise them", id="clock skew"),
        pytest.param(-1765328360, "export the keytab anew", id="pre-authentication failed"),
        pytest.param(-1765328366, "revoked", id="any other: the library's words"),
    ],
)
def test_error_that_is_hard_to_bring_about_is_explained(realm: Realm, code: int, expected: str) -> None:
    krb5, failures = (importlib.import_module(name) for name in ("krb5", "flink_autoscaler.clients.auth.kerberos"))
    scaler = Kerberos("scaler", "/etc/scaler.keytab")

    error = failures.explained(krb5.Krb5Error(krb5.init_context(), code), "HTTP/rm", scaler)

    assert str(error).startswith("Kerberos for HTTP/rm: ")
    assert expected in str(error)


@pytest.mark.usefixtures("realm")
def test_clocks_that_differ_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        pytest.skip("faketime is not installed; apt-get install faketime")
    with Realm(clock={"LD_PRELOAD": str(library), "FAKETIME": "+1h"}) as later:
        later.add("HTTP/localhost")
        identity = later.new_identity()
        for name, value in later.environment.items():
            monkeypatch.setenv(name, value)

        error = failure(identity)

    assert isinstance(error, ConnectError)
    assert "synchronise them" in str(error)


def test_tokens_stay_out_of_logs_and_representations(identity: Identity, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        proof = answered(identity)

    token = proof.headers["authorization"].partition(" ")[2]
    assert token not in caplog.text
    assert token not in repr(proof)
    assert os.fspath(identity.keytab) not in repr(proof)
