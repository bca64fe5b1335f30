"""What the images are, and that what the guide says of them works in them: beside real servers, where it takes some."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from databases import DatabaseServer, MariadbServer, PostgresqlServer, rows_of
from fake_flink import FakeFlink, FakeMetricStore, chain
from kerberos.httpd import GuardedServer
from kerberos.kdc import Realm
from machines import MachineError
from machines.engine import Container, Engine
from machines.images import FULL, INLINE, INLINE_KERBEROS, WITH_SPARK
from receiver import Receiver
from spark_cluster import ConnectServer, executor_python

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.tables import STATE
from flink_cluster.waiting import wait_until

pytestmark = pytest.mark.docker

SPARK_MB, INLINE_MB = 700, 200
CONFIGURATION = "/etc/flink-autoscaler/autoscaler.yaml"
SERVICE = "HTTP/localhost"
AS_IN_THE_GUIDE = ("--network", "host", "--init", "--read-only", "--tmpfs", "/tmp:exec")


def configured(engine: Engine, name: str, sections: dict[str, Any]) -> tuple[str, ...]:
    """Write a configuration; return the options of a container that reads it."""
    file = engine.shared / f"{name}.yaml"
    file.write_text(yaml.safe_dump({"autoscaler": sections, "job.autoscaler.enabled": True}))
    return (*AS_IN_THE_GUIDE, "--volume", f"{file}:{CONFIGURATION}:ro")


def for_containers(engine: Engine, path: Path) -> str:
    """Return the path of a copy of a file that containers can be given."""
    target = engine.shared / path.name
    shutil.copy(path, target)
    target.chmod(0o644)
    return str(target)


@pytest.fixture
def flink(engine: Engine) -> Iterator[FakeFlink]:
    """Return a cluster with a job that needs more, on the loopback of the engine; the test is in that network, too."""
    with engine.network(), FakeFlink(store=FakeMetricStore(interval=1.0)) as flink:
        job = flink.add_job("orders", chain(vertices=2, parallelism=2))
        job.obeys = True
        for vertex in job.vertices:
            vertex.records_per_second = 100.0
        yield flink


def clusters(flink: FakeFlink) -> list[dict[str, str]]:
    return [{"name": "main", "url": flink.url, "interval": "1 s"}]


@pytest.mark.parametrize(("image", "most"), [(WITH_SPARK, SPARK_MB), (INLINE, INLINE_MB)])
def test_image_is_small_and_described(engine: Engine, image: str, most: int) -> None:
    facts = engine.inspect(image)
    bill = ("--entrypoint", "cat", image, "/usr/share/doc/flink-autoscaler/sbom.cdx.json")
    document = json.loads(engine.docker("run", "--rm", *bill))
    print(f"{image}: {facts['Size'] / 1e6:.0f} MB, {len(document['components'])} components")

    assert facts["Size"] / 1e6 <= most
    assert facts["Config"]["Labels"]["org.opencontainers.image.version"] == "0.2.0"
    assert (document["bomFormat"], document["metadata"]["component"]["version"]) == ("CycloneDX", "0.2.0")
    assert len(document["components"]) > 100


@pytest.mark.parametrize("image", [WITH_SPARK, INLINE])
def test_image_has_no_pip_and_no_caches(engine: Engine, image: str) -> None:
    with pytest.raises(MachineError):
        engine.docker("run", "--rm", "--entrypoint", "/opt/flink-autoscaler/bin/python", image, "-m", "pip")
    left = engine.docker("run", "--rm", "--entrypoint", "ls", image, "-A", "/var/cache", "/tmp")
    assert left.split() == ["/tmp:", "/var/cache:"]


@pytest.mark.parametrize("kind", [PostgresqlServer, MariadbServer])
def test_small_image_keeps_state_in_a_database(engine: Engine, flink: FakeFlink, kind: type[DatabaseServer]) -> None:
    with kind() as server:
        settings = server.new_database()
        access = {"url": settings.url, "username": settings.username, "password-env-variable": "DATABASE_PASSWORD"}
        sections = {"clusters": clusters(flink), "standalone": {"jdbc": access}}
        options = (*configured(engine, server.scheme, sections), "--env", f"DATABASE_PASSWORD={settings.password}")
        database = Database(settings)
        with engine.start(INLINE, *options) as container:
            wait_until("state", lambda: _kept(database), 90, interval=0.5, context=container.log)
            container.execute("flink-autoscaler", "db", "check", "--config", CONFIGURATION)
        database.close()


def _kept(database: Database) -> bool:
    try:
        return bool(rows_of(database, STATE))
    except StoreError:  # the tables are not there yet
        return False


@pytest.mark.parametrize("image", [INLINE, WITH_SPARK])
def test_notifications_reach_webhooks_and_services_of_apprise(engine: Engine, flink: FakeFlink, image: str) -> None:
    with Receiver() as receiver:
        targets = [
            {"name": "audit", "url": f"http://127.0.0.1:{receiver.port}/hook"},
            {"name": "chat", "type": "apprise", "url": f"json://127.0.0.1:{receiver.port}/chat"},
        ]
        sections = {"clusters": clusters(flink), "notifications": {"targets": targets}}
        code, said = engine.ended(
            image, *configured(engine, "notify", sections), command=("notify", "--test", "--config", CONFIGURATION)
        )

    assert (code, "2 of 2 sent" in said) == (0, True), said
    assert {request.path for request in receiver.received} == {"/hook", "/chat"}


def test_history_report_and_profiles_are_made_in_the_image_with_spark(engine: Engine, flink: FakeFlink) -> None:
    history = {"enabled": True, "path": "/var/lib/flink-autoscaler/history", "interval": "0 s", "flush-interval": "2 s"}
    sections = {"clusters": clusters(flink), "history": history, "engine": {"kind": "spark"}}
    options = configured(engine, "history", sections)

    # In another zone than UTC, which has to change nothing.
    with engine.start(WITH_SPARK, *options, "--env", "TZ=Pacific/Auckland") as container:
        told = ("flink-autoscaler", "history", "info", "--config", CONFIGURATION, "--json")
        wait_until("Spark is up", lambda: "flink_autoscaler_spark_up 1.0" in _page(engine), 180, context=container.log)
        wait_until("rows in the history", lambda: _samples(container, told) >= 20, 120, context=container.log)
        report = container.execute(
            *("flink-autoscaler", "report", "--since", "1h", "--output", "/tmp/report.html", "--config", CONFIGURATION)
        )
        page = container.execute("cat", "/tmp/report.html")
        profiles = container.execute(
            *("flink-autoscaler", "forecast", "build", "--dry-run", "--json", "--config", CONFIGURATION), timeout=240
        )

    assert "main/orders" in page, report
    assert '"main/orders"' in profiles


def _page(engine: Engine) -> str:
    try:
        return engine.get("http://127.0.0.1:8484/metrics")
    except MachineError:
        return ""


def _samples(container: Container, command: tuple[str, ...]) -> int:
    try:
        found = json.loads(container.execute(*command))
    except MachineError:  # there is no history yet
        return 0
    return int(found["tables"][0]["rows"])


def test_a_backtest_works_with_the_jars_that_are_left(engine: Engine) -> None:
    script = (
        "set -e; cd /var/lib/flink-autoscaler; "
        "flink-autoscaler backtest --workload swing --days 1 --master 'local[2]' --output backtest.html; "
        "test -s backtest.html"
    )
    code, said = engine.ended(WITH_SPARK, "--network", "none", "--entrypoint", "sh", command=("-c", script))

    assert code == 0, said


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
            options = configured(engine, "kerberos", {"clusters": [cluster], "engine": {"kind": "inline"}})
            mounts = ("--volume", f"{krb5}:/etc/krb5.conf:ro", "--volume", f"{keytab}:/etc/flink-autoscaler/keytab:ro")
            code, said = engine.ended(
                image, *options, *mounts, command=("once", "--config", CONFIGURATION, "--json", "--dry-run")
            )
            shown = sum(line.endswith(" ticket") for line in server.requests())

    assert code == 0, said
    assert re.search(r'"job_key": "guarded/orders"', said), said
    assert shown >= 1


def test_kerberos_in_an_image_without_it_is_told(engine: Engine) -> None:
    auth = {"kind": "kerberos", "principal": "scaler", "keytab": "/etc/flink-autoscaler/keytab"}
    cluster = {"name": "guarded", "url": "http://127.0.0.1:1", "auth": auth}
    options = configured(engine, "no-kerberos", {"clusters": [cluster]})

    code, said = engine.ended(INLINE, *options)

    assert code == 2
    assert "flink-autoscaler[kerberos]" in said
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def executors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an interpreter with pyarrow alone; made before a test is in the network of the engine."""
    return executor_python(tmp_path_factory.mktemp("executors") / "env", "pyarrow")


def test_connect_as_a_build_argument_evaluates_on_a_server(engine: Engine, executors: Path, flink: FakeFlink) -> None:
    with ConnectServer(executors) as server:
        sections = {"clusters": clusters(flink), "engine": {"kind": "spark", "spark-master": server.url}}
        with engine.start(FULL, *configured(engine, "connect", sections)) as container:
            wait_until(
                "passes on the server",
                lambda: re.search(r'passes_total\{[^}]*engine="spark"[^}]*\} [2-9]', _page(engine)),
                180,
                interval=0.5,
                context=container.log,
            )


def test_connect_in_an_image_without_it_is_told(engine: Engine, flink: FakeFlink) -> None:
    sections = {"clusters": clusters(flink), "engine": {"kind": "spark", "spark-master": "sc://127.0.0.1:1"}}

    code, said = engine.ended(WITH_SPARK, *configured(engine, "no-connect", sections))

    assert code == 2
    assert "flink-autoscaler[connect]" in said
    assert "Traceback" not in said
