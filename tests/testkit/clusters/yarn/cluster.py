"""A real YARN cluster of local processes."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from testkit.clusters.flink import waiting
from testkit.clusters.flink.configuration import free_ports
from testkit.clusters.flink.errors import HarnessError, PortTakenError
from testkit.clusters.flink.guard import Guard
from testkit.clusters.flink.process import FlinkProcess
from testkit.clusters.yarn.configuration import (
    LOGGING,
    PORTS_EACH,
    QUEUES,
    TIMEOUT,
    ResourceManagerAddresses,
    capacity_scheduler,
    core_site,
    write_site,
    yarn_site,
)
from testkit.clusters.yarn.distribution import hadoop
from testkit.clusters.yarn.jvm import hadoop_jvm
from testkit.clusters.yarn.processes import ContainerGuard, end_processes_of

Json = Any
T = TypeVar("T")

_RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
_ADMIN = "org.apache.hadoop.yarn.client.cli.RMAdminCLI"
_PORT_ATTEMPTS = 4


class YarnCluster:
    """One or two ResourceManagers and a NodeManager on the loopback.

    Use it as a context manager, or call :meth:`start` and :meth:`stop`. Calls come from
    one thread at a time. All processes, containers too, end with the Python process,
    however that ends.

    Attributes:
        directory: Configuration, logs, containers and their files; there after the start.
        conf: Hadoop's configuration; there after the start.
        resource_managers: The processes by name, ``rm1`` first.
        node_manager: The process; there after the start.
    """

    directory: Path
    conf: Path
    node_manager: FlinkProcess

    def __init__(
        self,
        *,
        highly_available: bool = False,
        queues: Mapping[str, str] | None = None,
        site: Mapping[str, str] | None = None,
        caller: str | None = None,
        jvm_options: tuple[str, ...] = (),
    ) -> None:
        """Describe the cluster; nothing is started.

        Args:
            highly_available: Whether there are two ResourceManagers, the first of which is active.
            queues: Options of the capacity scheduler without their prefix.
            site: Properties of Hadoop and YARN that win over the harness's own.
            caller: User as whom the harness itself asks, where simple authentication is on.
            jvm_options: Further options of Hadoop's JVMs.
        """
        self.resource_managers: dict[str, FlinkProcess] = {}
        self._names = ("rm1", "rm2") if highly_available else ("rm1",)
        self._queues = dict(QUEUES if queues is None else queues)
        self._site = dict(site or {})
        self._jvm_options = jvm_options
        self._http = httpx.Client(timeout=30.0, trust_env=False, params={"user.name": caller} if caller else None)
        self._cleanup = ExitStack()

    @property
    def urls(self) -> list[str]:
        """Addresses of the ResourceManagers' web services, in the order of their names."""
        return [address.url for address in self._addresses]

    @property
    def url(self) -> str:
        """Address of the web service of the first ResourceManager."""
        return self.urls[0]

    def start(self) -> Self:
        """Start all processes; return when the node is registered.

        Raises:
            MavenUnreachableError: Hadoop is not in the cache and cannot be downloaded.
            HarnessError: The cluster did not come up; with the end of the logs.
        """
        self.hadoop = hadoop()
        try:
            self._prepare_directory()
            self._start_on_free_ports()
            self.node_manager = self._start_process("nodemanager", _NODE_MANAGER)
            self.wait_until("the node is registered", self._has_node, TIMEOUT)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End everything that was started; a second call does nothing."""
        self._cleanup.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def get(self, path: str, *, url: str | None = None, **params: str) -> Json:
        """Return the answer to a GET below ``/ws/v1/cluster`` of the active or a named ResourceManager."""
        response = self._http.get(f"{url or self.active_url()}/ws/v1/cluster{path}", params=params)
        if not response.is_success:
            raise HarnessError(f"{response.request.url}: {response.status_code} {response.text[:1000]}")
        return response.json()

    def active_url(self) -> str:
        """Return the address of the active ResourceManager when there is one."""
        return self.wait_until("a ResourceManager is active", self._active_url)

    def _active_url(self) -> str:
        return next((url for url in self.urls if self.ha_state(url) == "ACTIVE"), "")

    def ha_state(self, url: str) -> str | None:
        """Return the ``haState`` of the ResourceManager at an address, ``None`` while it does not answer."""
        try:
            response = self._http.get(f"{url}/ws/v1/cluster/info")
            return str(response.json()["clusterInfo"]["haState"]) if response.is_success else None
        except (httpx.HTTPError, ValueError):
            return None

    def activate(self, name: str) -> None:
        """Make a ResourceManager the active one, and the others that run standby ones."""
        for other, process in self.resource_managers.items():
            if other != name and process.is_running:
                self.deactivate(other)
        # Without force the tool first asks the others, of which one may have crashed.
        self.run_tool(_ADMIN, "-transitionToActive", "--forceactive", name)
        self._wait_for_state(name, "ACTIVE")

    def deactivate(self, name: str) -> None:
        """Make a ResourceManager a standby one."""
        self.run_tool(_ADMIN, "-transitionToStandby", name)
        self._wait_for_state(name, "STANDBY")

    def restore(self) -> None:
        """Have all ResourceManagers run and the first one active, with the node registered."""
        for name, process in self.resource_managers.items():
            if not process.is_running:
                self.start_resource_manager(name)
        self._wait_for_resource_managers()
        if self.ha_state(self.url) != "ACTIVE":
            self.activate(self._names[0])
        self.wait_until("the node is registered", self._has_node, TIMEOUT)

    def run_tool(self, main_class: str, *arguments: str, user: str | None = None) -> str:
        """Run one of Hadoop's command line tools; return what it printed.

        Args:
            main_class: Class with the ``main`` method.
            arguments: Its arguments.
            user: Whom YARN takes for the caller.
        """
        environment = {**os.environ, **({"HADOOP_USER_NAME": user} if user else {})}
        command = [*self._java(main_class.rpartition(".")[2]), main_class, *arguments]
        result = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=TIMEOUT)
        if result.returncode:
            raise HarnessError(f"{main_class} {' '.join(arguments)}:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
        return result.stdout

    def wait_until(self, description: str, probe: Callable[[], T], timeout: float = TIMEOUT) -> T:
        """Return the first truthy result of ``probe``.

        Raises:
            HarnessError: Nothing truthy in time; with the end of the logs.
        """
        return waiting.wait_until(description, probe, timeout, context=self.log_tails)

    def log_tails(self) -> str:
        """Return the end of the logs of Hadoop's processes and of all containers."""
        processes = [*self.resource_managers.values(), *([self.node_manager] if hasattr(self, "node_manager") else [])]
        containers = sorted((self.directory / "containers").glob("application_*/container_*/*.*"))
        tails = [f"--- {path}\n{path.read_text(errors='replace')[-2000:]}" for path in containers]
        return "\n".join([*(process.log_tail() for process in processes), *tails])

    def _prepare_directory(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="yarn-cluster-")).resolve()
        self._cleanup.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self._cleanup.callback(self._http.close)
        self.conf = self.directory / "conf"
        for part in ("conf", "log", "tmp", "staging", "rm-state"):
            (self.directory / part).mkdir()
        (self.conf / "log4j.properties").write_text(LOGGING)
        write_site(self.conf / "capacity-scheduler.xml", capacity_scheduler(self._queues))
        self._guard = Guard()
        self._cleanup.callback(self._guard.close)
        containers = ContainerGuard(self.directory)
        self._cleanup.callback(containers.close)

    def _start_on_free_ports(self) -> None:
        for attempts_left in reversed(range(_PORT_ATTEMPTS)):
            try:
                self._configure()
                self._start_resource_managers()
                return
            except PortTakenError:
                end_processes_of(self.directory)
                if not attempts_left:
                    raise

    def _configure(self) -> None:
        ports = free_ports(PORTS_EACH * len(self._names))
        chunks = [ports[start : start + PORTS_EACH] for start in range(0, len(ports), PORTS_EACH)]
        self._addresses = [
            ResourceManagerAddresses.of(name, chunk) for name, chunk in zip(self._names, chunks, strict=True)
        ]
        class_path = [str(self.conf), f"{self.hadoop.lib}/*"]
        site = yarn_site(self.directory, self._addresses, class_path=class_path)
        write_site(self.conf / "core-site.xml", {**core_site(), "hadoop.tmp.dir": str(self.directory / "tmp")})
        write_site(self.conf / "yarn-site.xml", {**site, **self._site})
        for name in self._names:
            # Only a file reaches all of a ResourceManager, and its address tells nothing: all are on one host.
            identity = {"yarn.resourcemanager.ha.id": name} if len(self._names) > 1 else {}
            write_site(self._own_conf(name) / "yarn-site.xml", {**site, **self._site, **identity})

    def _start_resource_managers(self) -> None:
        for name in self._names:
            self.start_resource_manager(name)
        self._wait_for_resource_managers()
        if len(self._names) > 1:
            self.activate(self._names[0])

    def _wait_for_resource_managers(self) -> None:
        for name, url in zip(self._names, self.urls, strict=True):
            self.wait_until(f"{name} answers", partial(self._answers, name, url), TIMEOUT)

    def _wait_for_state(self, name: str, state: str) -> None:
        url = self.urls[self._names.index(name)]
        self.wait_until(f"{name} is {state}", lambda: self.ha_state(url) == state)

    def start_resource_manager(self, name: str) -> FlinkProcess:
        """Start a ResourceManager, also one that was ended; return at once."""
        self.resource_managers[name] = self._start_process(name, _RESOURCE_MANAGER)
        return self.resource_managers[name]

    def _answers(self, name: str, url: str) -> bool:
        process = self.resource_managers[name]
        if not process.is_running and "BindException" in process.log_tail(300):
            raise PortTakenError(f"a port is taken\n{process.log_tail()}")
        process.require_running()
        return self.ha_state(url) is not None

    def _has_node(self) -> bool:
        self.node_manager.require_running()
        return bool(self.get("/metrics")["clusterMetrics"]["activeNodes"] == 1)

    def _own_conf(self, name: str) -> Path:
        path = self.conf / name
        path.mkdir(exist_ok=True)
        return path

    def _start_process(self, name: str, main_class: str) -> FlinkProcess:
        log_file = self.directory / "log" / f"{name}.log"
        return FlinkProcess(name, [*self._java(name), main_class], log_file, self._guard)

    def _java(self, name: str) -> list[str]:
        class_path = [f"{self.conf / name}", f"{self.conf}", f"{self.hadoop.lib}/*", f"{self.hadoop.logging}/*"]
        return hadoop_jvm(name, self.directory, class_path, self._jvm_options)
