"""The configuration of a test cluster: one node, some queues, everything on the loopback."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from xml.sax.saxutils import escape

LOOPBACK = "127.0.0.1"
TIMEOUT = 300.0
"""Seconds to wait for what takes ten on an idle machine; several clusters may share two cores with it."""

NODE_MB = 6144
NODE_VCORES = 16

# root (6144 MB): default, and streaming (at most 75 %) with two leaves: orders takes all of streaming,
# payments at most half of it: 2304 MB.
QUEUES = {
    "root.queues": "default,streaming",
    "root.default.capacity": "50",
    "root.streaming.capacity": "50",
    "root.streaming.maximum-capacity": "75",
    "root.streaming.queues": "orders,payments",
    "root.streaming.orders.capacity": "60",
    "root.streaming.payments.capacity": "40",
    "root.streaming.payments.maximum-capacity": "50",
    # Otherwise one user gets no more than the configured capacity of a queue.
    "root.streaming.orders.user-limit-factor": "10",
    "root.streaming.payments.user-limit-factor": "10",
    "maximum-am-resource-percent": "0.9",
}
_SERVICES = ("webapp", "scheduler", "resource-tracker", "admin", "client")
PORTS_EACH = len(_SERVICES)


@dataclass(frozen=True)
class ResourceManagerAddresses:
    """Where one ResourceManager listens, by service."""

    name: str
    ports: Mapping[str, int]

    @classmethod
    def of(cls, name: str, ports: Sequence[int]) -> Self:
        """Assign :data:`PORTS_EACH` ports."""
        return cls(name, dict(zip(_SERVICES, ports, strict=True)))

    @property
    def url(self) -> str:
        """Address of the web services and of the web proxy."""
        return f"http://{LOOPBACK}:{self.ports['webapp']}"

    def properties(self, suffix: str) -> dict[str, str]:
        """Return the addresses as ``yarn-site.xml`` has them; the suffix names one of several."""
        names = {"client": "address", **{name: f"{name}.address" for name in _SERVICES if name != "client"}}
        keys = {service: f"yarn.resourcemanager.{key}{suffix}" for service, key in names.items()}
        addresses = {keys[service]: f"{LOOPBACK}:{port}" for service, port in self.ports.items()}
        return {f"yarn.resourcemanager.hostname{suffix}": LOOPBACK, **addresses}


def core_site() -> dict[str, str]:
    """Return ``core-site.xml``: files are local, callers are who they say they are."""
    return {"fs.defaultFS": "file:///", "hadoop.security.authentication": "simple"}


def yarn_site(
    directory: Path, resource_managers: Sequence[ResourceManagerAddresses], *, class_path: Sequence[str]
) -> dict[str, str]:
    """Return ``yarn-site.xml`` of ResourceManagers, node and containers.

    Args:
        directory: Folder of the cluster.
        resource_managers: One, or several of which one is active.
        class_path: What every container gets besides its own jars.
    """
    return {
        **_resource_manager(directory, resource_managers),
        **_node(directory),
        "yarn.application.classpath": ",".join(class_path),
    }


def _resource_manager(directory: Path, resource_managers: Sequence[ResourceManagerAddresses]) -> dict[str, str]:
    common = {
        "yarn.resourcemanager.am.max-attempts": "5",
        "yarn.scheduler.minimum-allocation-mb": "64",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
        "yarn.nm.liveness-monitor.expiry-interval-ms": "30000",
    }
    if len(resource_managers) == 1:
        return {**common, **resource_managers[0].properties("")}
    addresses = [item for each in resource_managers for item in each.properties(f".{each.name}").items()]
    return {
        **common,
        **dict(addresses),
        "yarn.resourcemanager.cluster-id": "test",
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.rm-ids": ",".join(each.name for each in resource_managers),
        # Without ZooKeeper somebody has to say who is active, and state is kept in files.
        "yarn.resourcemanager.ha.automatic-failover.enabled": "false",
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.store.class": (
            "org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore"
        ),
        "yarn.resourcemanager.fs.state-store.uri": (directory / "rm-state").as_uri(),
        "yarn.client.failover-sleep-base-ms": "200",
        "yarn.client.failover-sleep-max-ms": "1000",
    }


def _node(directory: Path) -> dict[str, str]:
    any_port = f"{LOOPBACK}:0"
    return {
        "yarn.nodemanager.hostname": LOOPBACK,
        "yarn.nodemanager.bind-host": LOOPBACK,
        "yarn.nodemanager.address": any_port,
        "yarn.nodemanager.localizer.address": any_port,
        "yarn.nodemanager.webapp.address": any_port,
        "yarn.nodemanager.resource.memory-mb": str(NODE_MB),
        "yarn.nodemanager.resource.cpu-vcores": str(NODE_VCORES),
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.local-dirs": str(directory / "local"),
        "yarn.nodemanager.log-dirs": str(directory / "containers"),
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.nodemanager.sleep-delay-before-sigkill.ms": "250",
    }


def capacity_scheduler(queues: Mapping[str, str]) -> dict[str, str]:
    """Return ``capacity-scheduler.xml`` with queues in the short form of :data:`QUEUES`."""
    return {f"yarn.scheduler.capacity.{key}": value for key, value in queues.items()}


def write_site(path: Path, properties: Mapping[str, str]) -> None:
    """Write properties in the form that Hadoop reads."""
    rows = [
        f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
        for key, value in properties.items()
    ]
    path.write_text("\n".join(["<configuration>", *rows, "</configuration>", ""]))


LOGGING = """\
log4j.rootLogger=INFO,file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.file=${log.file}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d{HH:mm:ss,SSS} %-5p %c{1} - %m%n
"""
