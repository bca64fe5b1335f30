"""Pytest fixtures for tests with Kerberos.

Make them known with ``pytest_plugins = ["testkit.servers.kerberos.fixtures"]``.
"""

import importlib.util
import os
from collections.abc import Iterator

import pytest

from testkit.fakes.flink import FakeFlink
from testkit.servers.kerberos.httpd import GuardedServer
from testkit.servers.kerberos.kdc import Identity, Realm
from testkit.servers.kerberos.programs import MissingProgramError

PACKAGES = "apt-get install krb5-kdc krb5-admin-server krb5-user apache2-bin libapache2-mod-auth-gssapi"

SERVICE = "HTTP/localhost"


def _skip(reason: str) -> None:
    """Skip the test, but in CI, where everything should be there."""
    if "CI" in os.environ:
        raise MissingProgramError(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def kerberos_realm() -> Iterator[Realm]:
    """Give the realm that all tests share, started on first use."""
    if importlib.util.find_spec("gssapi") is None:
        _skip("the extra is not installed; pip install 'flink-autoscaler[kerberos]'")
    try:
        with Realm() as running:
            running.add(SERVICE)
            yield running
    except MissingProgramError as error:
        _skip(f"{error}; {PACKAGES}")


@pytest.fixture
def realm(kerberos_realm: Realm, monkeypatch: pytest.MonkeyPatch) -> Realm:
    """Give the shared realm; libkrb5 of this process uses its files, and its ticket cache, which is empty."""
    for name, value in kerberos_realm.environment.items():
        monkeypatch.setenv(name, value)
    kerberos_realm.tickets.unlink(missing_ok=True)
    return kerberos_realm


@pytest.fixture
def identity(realm: Realm) -> Identity:
    """Give a principal that no other test uses, and its keytab."""
    return realm.new_identity()


@pytest.fixture
def guarded_flink(realm: Realm) -> Iterator[tuple[GuardedServer, FakeFlink]]:
    """Give a server that asks for tickets and keeps sessions, and the fake JobManager behind it."""
    try:
        with FakeFlink() as flink, GuardedServer(flink.url, realm, realm.keytab(SERVICE)) as server:
            yield server, flink
    except MissingProgramError as error:
        _skip(f"{error}; {PACKAGES}")
