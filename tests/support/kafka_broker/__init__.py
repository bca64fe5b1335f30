"""A real Kafka broker on free ports of the loopback: KRaft, one node, jars from Maven Central."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

CACHE: Final = Path.home() / ".cache" / "flink-autoscaler" / "kafka-3.9.0"
POM: Final = Path(__file__).parent / "pom.xml"
START_SECONDS: Final = 60.0
ADMIN: Final = ("admin", "admin-pass")
GUEST: Final = ("guest", "guest-pass")


@dataclass(frozen=True)
class Broker:
    """A running broker. ``bootstrap`` is open to all, ``secured`` asks for a user and obeys ACLs."""

    bootstrap: str
    secured: str


def why_not() -> str | None:
    """Return what the machine lacks to run a broker; None where it has everything."""
    lacking = [name for name in ("java", "mvn") if shutil.which(name) is None]
    return f"needs {' and '.join(lacking)}" if lacking else None


def jars() -> Path:
    """Return the folder of the broker's jars, fetched on first use."""
    if not CACHE.exists():
        part = CACHE.with_name(f"{CACHE.name}.{uuid.uuid4().hex}")
        command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={part}"]
        subprocess.run(command, check=True, capture_output=True, timeout=500)
        if CACHE.exists():
            shutil.rmtree(part)
        else:
            part.rename(CACHE)
    return CACHE


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """Start a broker and stop it at the end."""
    plain, secured, controller = _free_ports(3)
    properties = folder / "server.properties"
    properties.write_text(_properties(folder, plain, secured, controller))
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*"]
    cluster_id = "MkU3OEVBNTcwNTJENDM2Qg"
    formatting = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)]
    subprocess.run(formatting, check=True, capture_output=True, timeout=60)
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=log, stderr=log)
    try:
        broker = Broker(f"127.0.0.1:{plain}", f"127.0.0.1:{secured}")
        _await(broker.bootstrap, process)
        yield broker
    finally:
        process.kill()
        process.wait(30)


def _await(bootstrap: str, process: subprocess.Popen[bytes]) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            client.list_topics(timeout=1)
        except KafkaException:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
        else:
            return


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _properties(folder: Path, plain: int, secured: int, controller: int) -> str:
    users = " ".join(f'user_{name}="{password}"' for name, password in (ADMIN, GUEST))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SECURED://127.0.0.1:{secured},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SECURED://127.0.0.1:{secured}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": f"{module} {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())
