"""TLS with real servers: who is trusted, what is shown, and what is said when it fails."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import warnings
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flink_autoscaler.clients.auth.tls import client_context
from flink_autoscaler.clients.http.transport import HttpTransport
from flink_autoscaler.core.errors import ConfigError, ConnectError
from flink_autoscaler.core.model.job import Endpoint, Tls
from testkit.builders.transport import exchange
from testkit.fakes.flink import Canned, FakeFlink
from testkit.servers.tls import Authority, Identity, TlsFront, encrypted, server_context

HOST = "127.0.0.1"
PASSWORD = "open sesame"
TLS_12 = ssl.TLSVersion.TLSv1_2
TLS_13 = ssl.TLSVersion.TLSv1_3

Send = Callable[[HttpTransport], Awaitable[object]]


async def get(transport: HttpTransport) -> object:
    return await transport.get_json("/config")


async def put(transport: HttpTransport) -> object:
    return await transport.put_json("/config", {})


async def get_three(transport: HttpTransport) -> object:
    return await transport.get_all_json([("/config", {})] * 3)


each_way = pytest.mark.parametrize("send", [get, put, get_three], ids=["GET", "PUT", "GETs"])


def failure(endpoint: Endpoint, send: Send) -> str:
    with pytest.raises(ConnectError) as raised:
        exchange(endpoint, send)
    return str(raised.value)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def authority(files: Path) -> Authority:
    return Authority(files)


@pytest.fixture(scope="module")
def stranger(files: Path) -> Authority:
    return Authority(files, "stranger")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Identity:
    return authority.issue(HOST)


@pytest.fixture(scope="module")
def client(authority: Authority) -> Identity:
    return authority.issue("daemon")


@pytest.fixture(scope="module")
def self_signed(files: Path) -> Identity:
    identity = Identity(str(files / "self-signed.pem"), str(files / "self-signed.key"))
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=self"]
    names = ["-addext", f"subjectAltName=IP:{HOST}"]
    output = ["-keyout", identity.key_file, "-out", identity.certificate_file]
    subprocess.run([*command, *names, *output], check=True, capture_output=True)
    return identity


@pytest.fixture
def tls(authority: Authority) -> Tls:
    return Tls(ca_file=authority.ca_file)


@pytest.fixture
def serve(flink: FakeFlink) -> Iterator[Callable[[ssl.SSLContext], TlsFront]]:
    fronts: list[TlsFront] = []
    port = int(flink.url.rpartition(":")[2])
    flink.fault("/config", Canned(b"{}"), method="PUT")

    def start(context: ssl.SSLContext) -> TlsFront:
        fronts.append(TlsFront(port, context).__enter__())
        return fronts[-1]

    yield start
    for front in fronts:
        front.__exit__(None, None, None)


Serve = Callable[[ssl.SSLContext], TlsFront]


@each_way
@pytest.mark.parametrize("latest", [TLS_12, TLS_13])
def test_server_of_a_known_authority_is_trusted(
    serve: Serve, server: Identity, tls: Tls, latest: ssl.TLSVersion, send: Send
) -> None:
    front = serve(server_context(server, latest=latest))

    assert exchange(Endpoint(front.url, tls=tls), send) is not None


@each_way
def test_flinks_former_only_cipher_suite_is_accepted(serve: Serve, server: Identity, tls: Tls, send: Send) -> None:
    context = server_context(server, latest=TLS_12)
    context.set_ciphers("AES128-SHA")
    front = serve(context)

    assert exchange(Endpoint(front.url, tls=tls), send) is not None


@each_way
def test_lack_of_a_common_cipher_suite_is_named(serve: Serve, server: Identity, tls: Tls, send: Send) -> None:
    context = server_context(server, latest=TLS_12)
    context.set_ciphers("NULL-SHA256:@SECLEVEL=0")  # without encryption, which no client takes unasked
    front = serve(context)

    assert "no cipher suite is accepted by both sides" in failure(Endpoint(front.url, tls=tls), send)


def test_rounds_go_over_the_connections_that_are_there(serve: Serve, server: Identity, tls: Tls) -> None:
    front = serve(server_context(server))

    async def rounds(transport: HttpTransport) -> None:
        for _ in range(3):
            assert len(await transport.get_all_json([("/config", {})] * 20)) == 20

    exchange(Endpoint(front.url, tls=tls, max_connections=2), rounds)

    assert front.handshakes <= 2


@each_way
def test_certificate_that_is_trusted_itself_needs_no_issuer(serve: Serve, server: Identity, send: Send) -> None:
    front = serve(server_context(server))

    assert exchange(Endpoint(front.url, tls=Tls(ca_file=server.certificate_file)), send) is not None


@each_way
def test_expired_certificate_is_named(serve: Serve, authority: Authority, tls: Tls, send: Send) -> None:
    front = serve(server_context(authority.issue(HOST, valid_days=-1)))

    assert "has expired" in failure(Endpoint(front.url, tls=tls), send)


@each_way
def test_certificate_of_another_host_is_named(serve: Serve, authority: Authority, tls: Tls, send: Send) -> None:
    front = serve(server_context(authority.issue("jobmanager.example")))

    message = failure(Endpoint(front.url, tls=tls), send)

    assert "for another host" in message
    assert HOST in message
    assert "tls.verify-host" in message


@each_way
def test_other_host_is_accepted_where_hosts_are_not_verified(
    serve: Serve, authority: Authority, tls: Tls, send: Send
) -> None:
    front = serve(server_context(authority.issue("jobmanager.example")))

    assert exchange(Endpoint(front.url, tls=replace(tls, verify_host=False)), send) is not None


@each_way
@pytest.mark.parametrize("verify_host", [True, False], ids=["host verified", "host not verified"])
def test_unknown_issuer_is_named(serve: Serve, stranger: Authority, tls: Tls, send: Send, *, verify_host: bool) -> None:
    front = serve(server_context(stranger.issue(HOST)))

    message = failure(Endpoint(front.url, tls=replace(tls, verify_host=verify_host)), send)

    assert "issuer of its certificate is not known" in message
    assert "tls.ca-file" in message


@each_way
def test_self_signed_certificate_is_named(serve: Serve, self_signed: Identity, tls: Tls, send: Send) -> None:
    front = serve(server_context(self_signed))

    assert "self-signed" in failure(Endpoint(front.url, tls=tls), send)


@each_way
@pytest.mark.parametrize("latest", [TLS_12, TLS_13])
def test_client_certificate_is_shown(
    serve: Serve, server: Identity, client: Identity, authority: Authority, latest: ssl.TLSVersion, send: Send
) -> None:
    front = serve(server_context(server, clients_of=authority, latest=latest))
    tls = Tls(authority.ca_file, client.certificate_file, encrypted(client.key_file, PASSWORD), PASSWORD)

    assert exchange(Endpoint(front.url, tls=tls), send) is not None


@each_way
@pytest.mark.parametrize("latest", [TLS_12, TLS_13])
def test_demanded_client_certificate_is_named(
    serve: Serve, server: Identity, authority: Authority, tls: Tls, latest: ssl.TLSVersion, send: Send
) -> None:
    front = serve(server_context(server, clients_of=authority, latest=latest))

    message = failure(Endpoint(front.url, tls=tls), send)

    assert "demands a client certificate" in message
    assert "tls.certificate-file" in message


@each_way
def test_client_certificate_is_not_suspected_of_a_server_that_has_answered(
    serve: Serve, flink: FakeFlink, server: Identity, tls: Tls, send: Send
) -> None:
    front = serve(server_context(server))

    async def before_and_after(transport: HttpTransport) -> object:
        await transport.get_json("/jobs/overview")
        await transport.put_json("/config", {})
        flink.pause()
        return await send(transport)

    message = failure(Endpoint(front.url, tls=tls), before_and_after)

    assert "clos" in message or "reset" in message
    assert "certificate" not in message


@each_way
@pytest.mark.parametrize("latest", [TLS_12, TLS_13])
def test_client_certificate_of_an_unknown_authority_is_named(
    serve: Serve,
    server: Identity,
    authority: Authority,
    stranger: Authority,
    latest: ssl.TLSVersion,
    send: Send,
) -> None:
    front = serve(server_context(server, clients_of=authority, latest=latest))
    identity = stranger.issue("daemon")
    tls = Tls(authority.ca_file, identity.certificate_file, identity.key_file)

    assert "not accept the certificate in tls.certificate-file" in failure(Endpoint(front.url, tls=tls), send)


@each_way
def test_server_without_modern_tls_is_named(serve: Serve, server: Identity, tls: Tls, send: Send) -> None:
    context = server_context(server)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    front = serve(context)

    assert "no TLS 1.2 or later" in failure(Endpoint(front.url, tls=tls), send)


@each_way
def test_plain_server_behind_an_https_url_is_named(flink: FakeFlink, tls: Tls, send: Send) -> None:
    endpoint = flink.endpoint(url=flink.url.replace("http:", "https:"), tls=tls)

    assert "should the URL begin with http:" in failure(endpoint, send)


def with_file(tls: Tls, field: str, file: Path) -> Tls:
    """Return the same with another file."""
    name = str(file)
    choices = {
        "ca_file": replace(tls, ca_file=name),
        "certificate_file": replace(tls, certificate_file=name),
        "key_file": replace(tls, key_file=name),
    }
    return choices[field]


def _tls_of(client: Identity, authority: Authority) -> Tls:
    return Tls(authority.ca_file, client.certificate_file, client.key_file)


@pytest.mark.parametrize("field", ["ca_file", "certificate_file", "key_file"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "cannot be read: No such file or directory", id="missing"),
        pytest.param(b"hello", "in PEM", id="something else"),
        pytest.param(b"", "in PEM", id="empty"),
        pytest.param(b"\xfe\xed\xfe\xed\x00\x00", "is a Java keystore", id="Java keystore"),
        pytest.param(b"\x30\x82\x0a\x00", "PKCS #12", id="PKCS 12"),
    ],
)
def test_unusable_file_is_named(
    tmp_path: Path, client: Identity, authority: Authority, field: str, content: bytes | None, said: str
) -> None:
    file = tmp_path / "wrong"
    if content is not None:
        file.write_bytes(content)
    tls = with_file(_tls_of(client, authority), field, file)

    with pytest.raises(ConfigError) as raised:
        client_context(tls)

    assert str(raised.value).startswith(f"tls.{field.replace('_', '-')} {file} ")
    assert said in str(raised.value)


@pytest.mark.parametrize("field", ["ca_file", "certificate_file", "key_file"])
def test_damaged_pem_is_named(tmp_path: Path, client: Identity, authority: Authority, field: str) -> None:
    tls = _tls_of(client, authority)
    lines = Path(str(getattr(tls, field))).read_text().splitlines()
    file = tmp_path / "damaged.pem"
    file.write_text("\n".join([lines[0], "AAAA", *lines[2:]]))

    with pytest.raises(ConfigError, match=r"damaged\.pem"):
        client_context(with_file(tls, field, file))


def test_directory_instead_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"tls.ca-file {tmp_path} cannot be read: Is a directory"):
        client_context(Tls(ca_file=str(tmp_path)))


def test_wrong_password_is_named_but_not_shown(client: Identity, authority: Authority) -> None:
    key = encrypted(client.key_file, PASSWORD)

    with pytest.raises(ConfigError, match="cannot be decrypted") as raised:
        client_context(Tls(authority.ca_file, client.certificate_file, key, "wrong-secret"))

    assert key in str(raised.value)
    assert "wrong-secret" not in str(raised.value)


def test_missing_password_is_named_instead_of_asked_for(client: Identity, authority: Authority) -> None:
    key = encrypted(client.key_file, PASSWORD)

    with pytest.raises(ConfigError, match=r"is encrypted: set tls\.key-password-file"):
        client_context(Tls(authority.ca_file, client.certificate_file, key))


def test_key_of_another_certificate_is_named(client: Identity, server: Identity, authority: Authority) -> None:
    with pytest.raises(ConfigError, match="is not the key of the first certificate in") as raised:
        client_context(Tls(authority.ca_file, client.certificate_file, server.key_file))

    assert server.key_file in str(raised.value)


def test_key_may_stand_in_the_certificate_file(tmp_path: Path, client: Identity, authority: Authority) -> None:
    file = tmp_path / "both.pem"
    file.write_bytes(Path(client.key_file).read_bytes() + Path(client.certificate_file).read_bytes())

    client_context(Tls(authority.ca_file, str(file)))


def test_key_without_certificate_is_refused(client: Identity) -> None:
    with pytest.raises(ConfigError, match=r"without tls\.certificate-file"):
        client_context(Tls(key_file=client.key_file))


def test_files_are_read_again_only_for_another_version(tmp_path: Path, authority: Authority) -> None:
    file = tmp_path / "ca.pem"
    shutil.copy(authority.ca_file, file)
    first = client_context(Tls(ca_file=str(file), version="1"))
    file.write_text("damaged")

    assert client_context(Tls(ca_file=str(file), version="1")) is first
    with pytest.raises(ConfigError):
        client_context(Tls(ca_file=str(file), version="2"))


def test_broken_file_fails_every_request_until_it_is_repaired(
    serve: Serve, tmp_path: Path, authority: Authority, server: Identity
) -> None:
    file = tmp_path / "ca.pem"
    front = serve(server_context(server))

    async def before_and_after(transport: HttpTransport) -> object:
        with pytest.raises(ConfigError, match=r"ca\.pem"):
            await transport.get_json("/config")
        shutil.copy(authority.ca_file, file)
        return await transport.get_json("/config")

    assert exchange(Endpoint(front.url, tls=Tls(ca_file=str(file))), before_and_after) is not None


def test_no_file_is_read_without_tls(flink: FakeFlink) -> None:
    assert exchange(flink.endpoint(tls=Tls(ca_file="/nowhere")), get) is not None
