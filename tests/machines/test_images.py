"""What the images are, and that what the guide says of them works in them: beside real servers, where it takes some."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.tables import STATE
from testkit.clusters.flink.waiting import wait_until
from testkit.clusters.machines import MachineError
from testkit.clusters.machines.engine import Container, Engine
from testkit.clusters.machines.given import AS_IN_THE_GUIDE, CONFIGURATION, clusters, fetch_page, write_configuration
from testkit.clusters.machines.images import INLINE, WITH_SPARK
from testkit.fakes.flink import FakeFlink
from testkit.fakes.receiver import Receiver
from testkit.servers.databases import DatabaseServer, MariadbServer, PostgresqlServer, rows_of

pytestmark = pytest.mark.suite(name="docker")

NEEDED = (INLINE, WITH_SPARK)

SPARK_MB, INLINE_MB = 700, 200


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
        access["upgrade-at-start"] = "true"
        kept = {"state-store": {"type": "JDBC"}, "event-handler": {"type": "JDBC"}, "jdbc": access}
        sections = {"clusters": clusters(flink), "standalone": kept}
        options = (
            *write_configuration(engine, server.scheme, sections),
            "--env",
            f"DATABASE_PASSWORD={settings.password}",
        )
        database = Database(settings)
        with engine.start(INLINE, *options) as container:
            wait_until("state", lambda: _kept(database), 300, interval=0.5, context=container.log)
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
            image,
            *write_configuration(engine, "notify", sections),
            command=("notify", "--test", "--config", CONFIGURATION),
        )

    assert (code, "2 of 2 sent" in said) == (0, True), said
    assert {request.path for request in receiver.received} == {"/hook", "/chat"}


def test_history_report_and_profiles_are_made_in_the_image_with_spark(engine: Engine, flink: FakeFlink) -> None:
    history = {"enabled": True, "path": "/var/lib/flink-autoscaler/history", "interval": "0 s", "flush-interval": "2 s"}
    sections = {"clusters": clusters(flink), "history": history, "engine": {"kind": "spark"}}
    options = write_configuration(engine, "history", sections)

    # In another zone than UTC, which has to change nothing.
    with engine.start(WITH_SPARK, *options, "--env", "TZ=Pacific/Auckland") as container:
        told = ("flink-autoscaler", "history", "info", "--config", CONFIGURATION, "--json")
        wait_until(
            "Spark", lambda: "autoscaler_spark_up 1.0" in fetch_page(engine, "/metrics"), 300, context=container.log
        )
        wait_until("rows in the history", lambda: _samples(container, told) >= 20, 300, context=container.log)
        report = container.execute(
            *("flink-autoscaler", "report", "--since", "1h", "--output", "/tmp/report.html", "--config", CONFIGURATION),
            timeout=400,
        )
        written = container.execute("cat", "/tmp/report.html")
        # Profiles are made of whole quarters of an hour; this one is over when the next one begins.
        later = (datetime.now(UTC) + timedelta(minutes=15)).isoformat()
        profiles = container.execute(
            *("flink-autoscaler", "forecast", "build", "--dry-run", "--json", "--config", CONFIGURATION),
            *("--asof", later),
            timeout=400,
        )

    assert "main/orders" in written, report
    assert '"main/orders"' in profiles


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


def test_kerberos_in_an_image_without_it_is_told(engine: Engine) -> None:
    auth = {"kind": "kerberos", "principal": "scaler", "keytab": "/etc/flink-autoscaler/keytab"}
    cluster = {"name": "guarded", "url": "http://127.0.0.1:1", "auth": auth}
    options = write_configuration(engine, "no-kerberos", {"clusters": [cluster]})

    code, said = engine.ended(INLINE, *options)

    assert code == 2
    assert "flink-autoscaler[kerberos]" in said
    assert "Traceback" not in said


def test_connect_in_an_image_without_it_is_told(engine: Engine) -> None:
    asked = ("backtest", "--workload", "swing", "--days", "1", "--master", "sc://127.0.0.1:1")

    code, said = engine.ended(WITH_SPARK, *AS_IN_THE_GUIDE, command=asked)

    assert code == 2
    assert "flink-autoscaler[connect]" in said
    assert "Traceback" not in said
