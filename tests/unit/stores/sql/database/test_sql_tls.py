"""Connections that are secured, or refused."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.stores.sql.database.database import Database
from testkit.servers.databases import DatabaseServer, MariadbServer, PostgresqlServer
from testkit.servers.databases.fixtures import started

ADDRESS = "subjectAltName=IP:127.0.0.1"
OTHER = "subjectAltName=DNS:elsewhere.example"

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def make_certificate(folder: Path, name: str, address: str) -> Path:
    """Make a certificate that is its own authority; the key is beside it."""
    path = folder / f"{name}.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    files = ["-addext", address, "-keyout", str(path.with_suffix(".key")), "-out", str(path)]
    subprocess.run([*command, *files], check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("certificates")
    return {name: make_certificate(folder, name, address) for name, address in (("here", ADDRESS), ("other", OTHER))}


def secured(kind: type[DatabaseServer], certificate: Path, *options: str) -> DatabaseServer:
    """Make a server with a certificate."""
    server = kind()
    copies = [Path(shutil.copy(path, server.folder)) for path in (certificate, certificate.with_suffix(".key"))]
    for copy in copies:
        server.give(copy)
    server.options = tuple(option.format(*copies) for option in options)
    return server


@pytest.fixture(scope="module")
def postgresql(certificates: dict[str, Path]) -> Iterator[DatabaseServer]:
    options = ("-c", "ssl=on", "-c", "ssl_cert_file={0}", "-c", "ssl_key_file={1}")
    yield from started(lambda: secured(PostgresqlServer, certificates["here"], *options))


@pytest.fixture(scope="module")
def mariadb(certificates: dict[str, Path]) -> Iterator[DatabaseServer]:
    options = ("--ssl-cert={0}", "--ssl-key={1}")
    yield from started(lambda: secured(MariadbServer, certificates["here"], *options))


@pytest.fixture(scope="module")
def foreign_mariadb(certificates: dict[str, Path]) -> Iterator[DatabaseServer]:
    options = ("--ssl-cert={0}", "--ssl-key={1}")
    yield from started(lambda: secured(MariadbServer, certificates["other"], *options))


def cipher(server: DatabaseServer, parameters: str) -> str | None:
    """Connect and return the cipher that is used; empty or None without any."""
    settings = server.new_database()
    is_mysql = server.scheme == "mysql"
    used = (
        "SHOW STATUS LIKE 'Ssl_cipher'"
        if is_mysql
        else "SELECT 1, cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    )
    with closing(Database(replace(settings, url=f"{settings.url}?{parameters}"))) as database:
        found: str | None = database.run(lambda connection: connection.exec_driver_sql(used).one()[1], read_only=True)
    return found


@pytest.mark.parametrize("parameters", ["sslmode=require", "sslmode=verify-full&sslrootcert={here}"])
def test_postgresql_is_secured(postgresql: DatabaseServer, certificates: dict[str, Path], parameters: str) -> None:
    assert cipher(postgresql, parameters.format(**certificates))


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param("sslMode=REQUIRED", id="required"),
        pytest.param("useSSL=true", id="old switch"),
        pytest.param("sslMode=VERIFY_CA&sslCa={here}", id="authority"),
        pytest.param("sslMode=VERIFY_IDENTITY&sslCa={here}", id="identity"),
    ],
)
def test_mariadb_is_secured(mariadb: DatabaseServer, certificates: dict[str, Path], parameters: str) -> None:
    assert cipher(mariadb, parameters.format(**certificates))


def test_mariadb_without_tls_when_that_is_asked_for(mariadb: DatabaseServer) -> None:
    assert not cipher(mariadb, "useSSL=false")


@pytest.mark.parametrize("parameters", ["sslmode=verify-ca&sslrootcert={other}", "ssl=true&sslrootcert={other}"])
def test_postgresql_with_a_foreign_certificate(
    postgresql: DatabaseServer, certificates: dict[str, Path], parameters: str
) -> None:
    with pytest.raises(StoreError, match="could not be secured"):
        cipher(postgresql, parameters.format(**certificates))


@pytest.mark.parametrize("parameters", ["sslMode=VERIFY_CA&sslCa={other}", "sslMode=VERIFY_IDENTITY"])
def test_mariadb_with_a_foreign_certificate(
    mariadb: DatabaseServer, certificates: dict[str, Path], parameters: str
) -> None:
    with pytest.raises(StoreError, match="could not be secured"):
        cipher(mariadb, parameters.format(**certificates))


def test_mariadb_of_another_name(foreign_mariadb: DatabaseServer, certificates: dict[str, Path]) -> None:
    known = f"sslCa={certificates['other']}"

    assert cipher(foreign_mariadb, f"sslMode=VERIFY_CA&{known}")
    with pytest.raises(StoreError, match="could not be secured"):
        cipher(foreign_mariadb, f"sslMode=VERIFY_IDENTITY&{known}")


@pytest.mark.parametrize("fixture", ["postgresql_server", "mariadb_server"])
def test_a_server_without_tls_is_refused_where_it_is_required(request: pytest.FixtureRequest, fixture: str) -> None:
    server: DatabaseServer = request.getfixturevalue(fixture)

    with pytest.raises(StoreError, match="could not be secured"):
        cipher(server, "sslMode=REQUIRED" if server.scheme == "mysql" else "sslmode=require")
