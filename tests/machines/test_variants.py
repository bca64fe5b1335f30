"""The images with build arguments, beside a real Kerberos realm and a real Spark Connect server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testkit.clusters.machines.engine import Engine
from testkit.clusters.machines.given import AS_IN_THE_GUIDE, CONFIGURATION, for_containers, write_configuration
from testkit.clusters.machines.images import FULL, INLINE_KERBEROS
from testkit.clusters.spark import ConnectServer, equipped_python
from testkit.fakes.flink import FakeFlink
from testkit.servers.kerberos.httpd import GuardedServer
from testkit.servers.kerberos.kdc import Realm

pytestmark = pytest.mark.suite(name="docker")

NEEDED = (INLINE_KERBEROS, FULL)
SERVICE = "HTTP/localhost"


@pytest.mark.parametrize("image", [INLINE_KERBEROS, FULL])
def test_kerberos_as_a_build_argument_reaches_a_cluster_behind_it(
    engine: Engine, flink: FakeFlink, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Realm() as realm:
        for name, value in realm.environment.items():
            monkeypatch.setenv(name, value)
        realm.add(SERVICE)
        who = realm.new_identity()
        krb5, keytab = (for_containers(engine, path) for path in (realm.folder / "krb5.conf", who.keytab))
        with GuardedServer(flink.url, realm, realm.keytab(SERVICE)) as server:
            auth = {"kind": "kerberos", "principal": who.principal, "keytab": "/etc/flink-autoscaler/keytab"}
            cluster = {"name": "guarded", "url": server.url, "auth": auth}
            options = write_configuration(engine, "kerberos", {"clusters": [cluster], "engine": {"kind": "inline"}})
            mounts = ("--volume", f"{krb5}:/etc/krb5.conf:ro", "--volume", f"{keytab}:/etc/flink-autoscaler/keytab:ro")
            code, said = engine.ended(
                image, *options, *mounts, command=("once", "--config", CONFIGURATION, "--json", "--dry-run")
            )
            shown = sum(line.endswith(" ticket") for line in server.requests())

    assert code == 0, said
    assert re.search(r'"job_key": "guarded/orders"', said), said
    assert shown >= 1


@pytest.fixture(scope="module")
def executors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an interpreter with the libraries and without our code; made before a test is in the engine's network."""
    return equipped_python(tmp_path_factory.mktemp("executors") / "env")


def test_connect_as_a_build_argument_backtests_on_a_server(engine: Engine, executors: Path) -> None:
    with ConnectServer(executors) as server:
        asked = ("backtest", "--workload", "swing", "--days", "1", "--json", "--master", server.url)
        code, said = engine.ended(FULL, *AS_IN_THE_GUIDE, command=asked, timeout=400.0)

    assert code == 0, said
    assert '"jobs":' in said
