"""The Flink configuration of a test cluster."""

import json
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

LOOPBACK = "127.0.0.1"

# Waits that are right for production and too long for a test.
FAST = {
    "metrics.fetcher.update-interval": "2000",
    "web.refresh-interval": "1000",
    "heartbeat.interval": "2000",
    "heartbeat.timeout": "20000",
    "slot.idle.timeout": "10000",
    "jobmanager.adaptive-scheduler.resource-stabilization-timeout": "1s",
    "jobmanager.adaptive-scheduler.resource-wait-timeout": "5min",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "2147483647",
    "restart-strategy.fixed-delay.delay": "1s",
}
FAST_BY_VERSION = {
    "1.20": {"jobmanager.adaptive-scheduler.scaling-interval.min": "1s"},
    "2.3": {
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1s",
        "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "2s",
        "rest.cache.execution-graph.timeout": "1s",
        "web.adaptive-scheduler.rescale-history.size": "20",
    },
}

# Bin scripts compute these from totals; without the scripts they must be explicit.
# Small segments keep few records in flight, so that lag shows at the source at once.
MEMORY = {
    "taskmanager.cpu.cores": "2.0",
    "taskmanager.memory.framework.heap.size": "96m",
    "taskmanager.memory.task.heap.size": "160m",
    "taskmanager.memory.framework.off-heap.size": "64m",
    "taskmanager.memory.task.off-heap.size": "16m",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "taskmanager.memory.managed.size": "32m",
    "taskmanager.memory.jvm-metaspace.size": "160m",
    "taskmanager.memory.jvm-overhead.min": "96m",
    "taskmanager.memory.jvm-overhead.max": "96m",
    "taskmanager.memory.segment-size": "4kb",
    "jobmanager.memory.heap.size": "256m",
    "jobmanager.memory.off-heap.size": "96m",
    "jobmanager.memory.jvm-metaspace.size": "160m",
    "jobmanager.memory.jvm-overhead.min": "96m",
    "jobmanager.memory.jvm-overhead.max": "96m",
}


def cluster_configuration(
    version: str, directory: Path, *, rest_port: int, rpc_port: int, slots: int, extra: Mapping[str, str]
) -> dict[str, str]:
    """Return the configuration of a cluster on the loopback; ``extra`` wins over all."""
    base = directory.as_uri()
    return {
        "jobmanager.scheduler": "adaptive",
        "jobmanager.rpc.address": LOOPBACK,
        "jobmanager.rpc.port": str(rpc_port),
        "jobmanager.bind-host": LOOPBACK,
        "rest.address": LOOPBACK,
        "rest.bind-address": LOOPBACK,
        "rest.port": str(rest_port),
        "rest.bind-port": str(rest_port),
        "taskmanager.host": LOOPBACK,
        "taskmanager.bind-host": LOOPBACK,
        "taskmanager.numberOfTaskSlots": str(slots),
        "parallelism.default": "1",
        "io.tmp.dirs": str(directory / "tmp"),
        "web.tmpdir": str(directory / "tmp"),
        "web.upload.dir": str(directory / "upload"),
        "execution.checkpointing.dir": f"{base}/checkpoints",
        "execution.checkpointing.savepoint-dir": f"{base}/savepoints",
        **FAST,
        **FAST_BY_VERSION[version],
        **MEMORY,
        **extra,
    }


def write_configuration(directory: Path, configuration: Mapping[str, str]) -> Path:
    """Write ``config.yaml``, which 1.20 and 2.x read alike; return its path.

    Flink flattens nested keys itself, so the flat form is enough, and a JSON string
    is a YAML string.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "config.yaml"
    lines = [f"{key}: {json.dumps(value)}" for key, value in sorted(configuration.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


def jobmanager_jvm_options(configuration: Mapping[str, str]) -> list[str]:
    """Return heap and metaspace limits of a JobManager."""
    heap = megabytes(configuration["jobmanager.memory.heap.size"])
    metaspace = megabytes(configuration["jobmanager.memory.jvm-metaspace.size"])
    return ["-Xms64m", f"-Xmx{heap}m", f"-XX:MaxMetaspaceSize={metaspace}m"]


def taskmanager_jvm_options(configuration: Mapping[str, str]) -> list[str]:
    """Return the limits of a TaskManager: the sums that Flink's scripts would compute."""

    def total(*parts: str) -> int:
        return sum(megabytes(configuration[f"taskmanager.memory.{part}"]) for part in parts)

    heap = total("framework.heap.size", "task.heap.size")
    direct = total("framework.off-heap.size", "task.off-heap.size", "network.max")
    metaspace = total("jvm-metaspace.size")
    return ["-Xms64m", f"-Xmx{heap}m", f"-XX:MaxDirectMemorySize={direct}m", f"-XX:MaxMetaspaceSize={metaspace}m"]


def megabytes(size: str) -> int:
    """Return a memory size such as ``"512m"`` or ``"1g"`` in MiB."""
    text = size.strip().lower()
    number = int(text.rstrip("gmkb"))
    unit = text[len(str(number)) :].rstrip("b")
    return {"g": number * 1024, "m": number, "k": number // 1024, "": number // 2**20}[unit]


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback that nobody listens on now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]
