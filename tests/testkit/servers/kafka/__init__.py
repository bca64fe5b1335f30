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
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from testkit.servers.tls import Authority, Identity

CACHE: Final = Path.home() / ".cache" / "flink-autoscaler" / "kafka-3.9.0"
POM: Final = Path(__file__).parent / "pom.xml"
START_SECONDS: Final = 60.0
ADMIN: Final = ("admin", "admin-pass")
GUEST: Final = ("guest", "guest-pass")
HOST: Final = "127.0.0.1"


@dataclass(frozen=True)
class Broker:
    """A running broker.

    Attributes:
        bootstrap: Open to all.
        secured: Asks for a user by SASL/PLAIN, and obeys ACLs.
        scrambled: The same by SASL/SCRAM-SHA-512 over TLS.
        ca_file: Who vouches for its certificate, PEM.
    """

    bootstrap: str
    secured: str
    scrambled: str
    ca_file: str


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
    plain, secured, scrambled, controller = _free_ports(4)
    authority = Authority(folder)
    store = _key_store(folder, authority.issue(HOST))
    properties = folder / "server.properties"
    properties.write_text(_properties(folder, Ports(plain, secured, scrambled, controller), store))
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*"]
    cluster_id = "MkU3OEVBNTcwNTJENDM2Qg"
    formatting = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)]
    for name, password in (ADMIN, GUEST):
        formatting += ["--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]"]
    subprocess.run(formatting, check=True, capture_output=True, timeout=300)
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=log, stderr=log)
    try:
        broker = Broker(f"{HOST}:{plain}", f"{HOST}:{secured}", f"{HOST}:{scrambled}", authority.ca_file)
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


class Ports(NamedTuple):
    """A port for each way in."""

    plain: int
    secured: int
    scrambled: int
    controller: int


def _key_store(folder: Path, identity: Identity) -> Path:
    """Return a file with key and certificates, as the broker reads them."""
    store = folder / "broker.pem"
    parts = (identity.key_file, identity.certificate_file)
    store.write_bytes(b"".join(_as_pkcs8(Path(part).read_bytes()) for part in parts))
    return store


def _as_pkcs8(pem: bytes) -> bytes:
    if b"PRIVATE KEY" not in pem:
        return pem
    return load_pem_private_key(pem, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _properties(folder: Path, ports: Ports, store: Path) -> str:
    users = " ".join(f'user_{name}="{password}"' for name, password in (ADMIN, GUEST))
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ways = {"PLAINTEXT": ports.plain, "SECURED": ports.secured, "SCRAMBLED": ports.scrambled}
    listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in ways.items())
    protocols = "PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT,SCRAMBLED:SASL_SSL,CONTROLLER:PLAINTEXT"
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{ports.controller}",
        "listeners": f"{listeners},CONTROLLER://{HOST}:{ports.controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": protocols,
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": f"{plain} {users};",
        "listener.name.scrambled.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.scrambled.scram-sha-512.sasl.jaas.config": f"{scram};",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
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
