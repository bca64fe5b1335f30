"""A real Flink cluster of local processes."""

import shutil
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from testkit.clusters.flink import archive, waiting
from testkit.clusters.flink.configuration import (
    LOOPBACK,
    cluster_configuration,
    free_ports,
    jobmanager_jvm_options,
    taskmanager_jvm_options,
    write_configuration,
)
from testkit.clusters.flink.distribution import distribution
from testkit.clusters.flink.errors import PortTakenError
from testkit.clusters.flink.guard import Guard
from testkit.clusters.flink.java import MODULE_OPTIONS, SLIM_OPTIONS, tool, write_logging
from testkit.clusters.flink.process import FlinkProcess
from testkit.clusters.flink.rest import FlinkRest, Json

T = TypeVar("T")

_TASKMANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_START_TIMEOUT = 120.0  # a cold start takes about 5 s; on a machine that is busy otherwise much longer
_WHOLE_LOG = 100_000
"""Lines: the reason comes before the thread dump with which a JobManager may end."""
_PORT_ATTEMPTS = 4


class FlinkCluster:
    """A session cluster on the loopback: one JobManager, some TaskManagers.

    Use it as a context manager, or call :meth:`start` and :meth:`stop`. Calls come from
    one thread at a time. All processes end with the Python process, however that ends.

    Attributes:
        rest: The REST API; there after the start.
        jobmanager: The JobManager; there after the start.
        taskmanagers: TaskManagers in the order of their start, ended ones too.
        directory: Configuration, logs and checkpoints; there after the start.
    """

    main_class = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"

    rest: FlinkRest
    jobmanager: FlinkProcess
    directory: Path

    def __init__(
        self,
        version: str = "2.3",
        *,
        config: Mapping[str, str] | None = None,
        taskmanagers: int = 1,
        slots: int = 4,
        directory: Path | None = None,
        choose_ports: Callable[[int], list[int]] = free_ports,
        rest_tls: ssl.SSLContext | None = None,
    ) -> None:
        """Describe the cluster; nothing is started.

        Args:
            version: ``"1.20"`` or ``"2.3"``.
            config: Flink options that win over the harness's own.
            taskmanagers: TaskManagers to start with.
            slots: Slots of each TaskManager.
            directory: Where configuration, logs and checkpoints go and stay; by default a
                temporary directory that disappears with the cluster.
            choose_ports: Gives ports to try; asked again when another process was quicker.
            rest_tls: How the harness itself talks to a REST API with ``security.ssl.rest.enabled``, which is to be
                in ``config``; None where that is off.
        """
        self.version = version
        self.slots = slots
        self.taskmanagers: list[FlinkProcess] = []
        self._config = dict(config or {})
        self._initial_taskmanagers = taskmanagers
        self._kept_directory = directory
        self._choose_ports = choose_ports
        self._rest_tls = rest_tls
        self._cleanup = ExitStack()

    @property
    def rest_url(self) -> str:
        """Address of the REST API, such as ``http://127.0.0.1:40123``."""
        return self.rest.url

    def start(self) -> Self:
        """Start all processes; return when all slots are registered.

        Raises:
            HarnessError: Something is missing on this machine, or the cluster did not come
                up; with the end of the logs.
        """
        self._distribution = distribution(self.version)
        try:
            self._prepare_directory()
            self._start_on_free_ports()
            for taskmanager in [self._start_taskmanager() for _ in range(self._initial_taskmanagers)]:
                self._wait_for_registration(taskmanager)
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

    def add_taskmanager(self) -> FlinkProcess:
        """Start one more TaskManager; return it when its slots are registered."""
        taskmanager = self._start_taskmanager()
        self._wait_for_registration(taskmanager)
        return taskmanager

    def restart_jobmanager(self) -> None:
        """Start the JobManager again on its old ports, ending it first if it runs.

        A session cluster without high availability has forgotten its jobs afterwards;
        TaskManagers come back when they have noticed (``heartbeat.timeout``).
        """
        self.jobmanager.kill()
        self.jobmanager = self._start_jobmanager()
        self._wait_for_jobmanager()

    def wait_for_slots(self, count: int, timeout: float = _START_TIMEOUT) -> None:
        """Return when exactly ``count`` slots are registered, free or not."""

        def slots_are_there() -> bool:
            self.require_running()
            overview = self.rest.reachable("/overview")
            return overview is not None and overview["slots-total"] == count

        self.wait_until(f"{count} slots registered", slots_are_there, timeout)

    def require_running(self) -> None:
        """Raise with the end of the log if a process has ended on its own."""
        for process in (self.jobmanager, *self.taskmanagers):
            process.require_running()

    def upload_and_run(
        self,
        jar: Path,
        *,
        entry_class: str,
        parallelism: int = 1,
        args: Sequence[str] = (),
        config: Mapping[str, str] | None = None,
        savepoint: str | None = None,
    ) -> str:
        """Submit a job; return its id as soon as the cluster has accepted it.

        Args:
            jar: The job's jar.
            entry_class: Class with the ``main`` method.
            parallelism: Default parallelism of the job.
            args: Program arguments.
            config: Flink options of this job only.
            savepoint: Path to start from.
        """
        body: dict[str, Json] = {
            "entryClass": entry_class,
            "parallelism": parallelism,
            "programArgsList": list(args),
            "flinkConfiguration": dict(config or {}),
        }
        if savepoint is not None:
            body["savepointPath"] = savepoint
        return self.rest.run(self.rest.upload(jar), body)

    def wait_for_running(self, job_id: str, timeout: float = 300.0) -> None:
        """Return when every subtask of the job runs."""
        self.wait_until(f"job {job_id} running", lambda: self.rest.all_tasks_running(job_id), timeout)

    def cancel(self, job_id: str, timeout: float = 300.0) -> None:
        """Cancel a job; return when it has ended. A job that has ended stays as it is."""
        self.rest.cancel(job_id)
        ended = {"CANCELED", "FAILED", "FINISHED", "MISSING"}
        self.wait_until(f"job {job_id} ended", lambda: self.rest.job_state(job_id) in ended, timeout)

    def wait_until(self, description: str, probe: Callable[[], T], timeout: float = 300.0) -> T:
        """Return the first truthy result of ``probe``.

        Raises:
            HarnessError: Nothing truthy in time; with the end of the logs.
        """
        return waiting.wait_until(description, probe, timeout, context=self.log_tails)

    def log_tails(self) -> str:
        """Return the end of the logs of all processes."""
        return "\n".join(process.log_tail() for process in (self.jobmanager, *self.taskmanagers))

    def jobmanager_arguments(self) -> list[str]:
        """Return what the JobManager is told besides its configuration directory."""
        return []

    def class_path(self) -> str:
        """Return the class path of all processes."""
        return self._distribution.class_path

    def shared_classes(self, role: str) -> list[str]:
        """Return the options by which a ``"jobmanager"`` or ``"taskmanager"`` finds the classes that others loaded."""
        return archive.options(self.version, role)

    def _prepare_directory(self) -> None:
        directory = self._kept_directory or Path(tempfile.mkdtemp(prefix="flink-cluster-"))
        self.directory = directory.resolve()
        if self._kept_directory is None:
            self._cleanup.callback(shutil.rmtree, self.directory, ignore_errors=True)
        for part in ("conf", "log", "tmp"):
            (self.directory / part).mkdir(parents=True, exist_ok=True)
        write_logging(self.directory / "conf")
        self._guard = Guard(remove=None if self._kept_directory else self.directory)
        self._cleanup.callback(self._guard.close)

    def _start_on_free_ports(self) -> None:
        for attempts_left in reversed(range(_PORT_ATTEMPTS)):
            try:
                self._configure(*self._choose_ports(2))
                self.jobmanager = self._start_jobmanager()
                self._wait_for_jobmanager()
                return
            except PortTakenError:
                if not attempts_left:
                    raise

    def _configure(self, rest_port: int, rpc_port: int) -> None:
        self._flink_config = cluster_configuration(
            self.version,
            self.directory,
            rest_port=rest_port,
            rpc_port=rpc_port,
            slots=self.slots,
            extra=self._config,
        )
        write_configuration(self.directory / "conf", self._flink_config)
        scheme = "http" if self._rest_tls is None else "https"
        self.rest = FlinkRest(f"{scheme}://{LOOPBACK}:{self._flink_config['rest.port']}", self._rest_tls)
        self._cleanup.callback(self.rest.close)

    def _start_jobmanager(self) -> FlinkProcess:
        options = [*jobmanager_jvm_options(self._flink_config), *self.shared_classes("jobmanager")]
        return self._start_process("jobmanager", options, self.main_class, *self.jobmanager_arguments())

    def _start_taskmanager(self) -> FlinkProcess:
        name = f"taskmanager-{len(self.taskmanagers) + 1}"
        options = [*taskmanager_jvm_options(self._flink_config), *self.shared_classes("taskmanager")]
        identity = f"-Dtaskmanager.resource-id={name}"
        self.taskmanagers.append(self._start_process(name, options, _TASKMANAGER, identity))
        return self.taskmanagers[-1]

    def _start_process(self, name: str, jvm_options: list[str], main_class: str, *more: str) -> FlinkProcess:
        conf = self.directory / "conf"
        log_file = self.directory / "log" / f"{name}.log"
        places = [
            f"-Dlog4j.configurationFile={(conf / 'log4j2.properties').as_uri()}",
            f"-Dlog.file={log_file}",
            f"-Djava.io.tmpdir={self.directory / 'tmp'}",
        ]
        jvm = [str(tool("java")), *SLIM_OPTIONS, *jvm_options, *MODULE_OPTIONS, *places, "-cp", self.class_path()]
        command = [*jvm, main_class, "--configDir", str(conf), *more]
        process = FlinkProcess(name, command, log_file, self._guard)
        self._cleanup.callback(process.kill)
        return process

    def _wait_for_registration(self, taskmanager: FlinkProcess) -> None:
        def is_registered() -> bool:
            self.require_running()
            answer = self.rest.reachable(f"/taskmanagers/{taskmanager.name}")
            return answer is not None and answer["slotsNumber"] == self.slots

        self.wait_until(f"{taskmanager.name} registered", is_registered, _START_TIMEOUT)

    def _wait_for_jobmanager(self) -> None:
        self.wait_until("JobManager answers", self._jobmanager_answers, _START_TIMEOUT)

    def _jobmanager_answers(self) -> bool:
        if not self.jobmanager.is_running and "BindException" in self.jobmanager.log_tail(_WHOLE_LOG):
            raise PortTakenError(f"a port is taken\n{self.jobmanager.log_tail()}")
        self.jobmanager.require_running()
        config = self.rest.reachable("/jobmanager/config") or []
        # Somebody else's Flink on a contested port has another directory.
        mine = {"key": "io.tmp.dirs", "value": self._flink_config["io.tmp.dirs"]}
        return mine in config
