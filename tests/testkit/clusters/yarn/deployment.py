"""Flink's own client, which deploys Flink on YARN."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from testkit.clusters.flink import job as scaling_job
from testkit.clusters.flink.configuration import FAST, FAST_BY_VERSION, LOOPBACK, MEMORY, megabytes, write_configuration
from testkit.clusters.flink.distribution import distribution
from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.java import LOGGING, MODULE_OPTIONS, SLIM_OPTIONS, tool
from testkit.clusters.yarn.application import YarnApplication
from testkit.clusters.yarn.cluster import YarnCluster
from testkit.clusters.yarn.configuration import TIMEOUT
from testkit.clusters.yarn.distribution import flink_lib

_SESSION = "org.apache.flink.yarn.cli.FlinkYarnSessionCli"
_CLIENT = "org.apache.flink.client.cli.CliFrontend"
_APPLICATION_ID = re.compile(r"application_\d+_\d+")


class FlinkOnYarn:
    """Deploys Flink on a YARN cluster.

    A JobManager takes a container of 640 MB, a TaskManager one of 704 MB.
    """

    def __init__(self, yarn: YarnCluster, version: str = "1.20") -> None:
        """Prepare the client; nothing is deployed.

        Args:
            yarn: A running cluster.
            version: ``"1.20"``; later ones work, too.
        """
        self._yarn = yarn
        self._version = version
        self._lib = flink_lib(distribution(version).lib)

    def session(
        self,
        name: str,
        *,
        queue: str = "orders",
        user: str = "alice",
        tags: Sequence[str] = (),
        config: Mapping[str, str] | None = None,
    ) -> YarnApplication:
        """Deploy a session cluster without jobs; return it when its JobManager runs.

        Args:
            name: Name of the YARN application.
            queue: Leaf queue of the capacity scheduler.
            user: Whom YARN takes for the owner.
            tags: Tags of the application.
            config: Flink options that win over the harness's own.
        """
        options = self._options(name, queue, tags)
        output = self._run(user, config or {}, _SESSION, "--detached", *_dynamic(options))
        return YarnApplication(self._yarn, _id_in(output), user)

    def application(
        self,
        name: str,
        job: scaling_job.ScalingJob,
        *,
        queue: str = "orders",
        user: str = "alice",
        tags: Sequence[str] = (),
        config: Mapping[str, str] | None = None,
    ) -> YarnApplication:
        """Deploy a job as an application cluster; return it when its JobManager runs.

        Args:
            name: Name of the YARN application.
            job: What runs on it.
            queue: Leaf queue of the capacity scheduler.
            user: Whom YARN takes for the owner.
            tags: Tags of the application.
            config: Flink options that win over the harness's own.
        """
        options = self._options(name, queue, tags)
        jar = scaling_job.build(self._version)
        program = ["--class", scaling_job.ENTRY_CLASS, str(jar), *job.arguments()]
        command = ["run-application", "--target", "yarn-application", *_dynamic(options), *program]
        output = self._run(user, config or {}, _CLIENT, *command)
        return YarnApplication(self._yarn, _id_in(output), user)

    def submit(self, session: YarnApplication, job: scaling_job.ScalingJob) -> str:
        """Run a job on a session cluster; return its id when all its subtasks run."""
        rest = session.rest()
        try:
            jar_id = rest.upload(scaling_job.build(self._version))
            rest.run(jar_id, {"entryClass": scaling_job.ENTRY_CLASS, "programArgsList": job.arguments()})
        finally:
            rest.close()
        return session.wait_for_job(job.name)

    def _options(self, name: str, queue: str, tags: Sequence[str]) -> dict[str, str]:
        return {"yarn.application.name": name, "yarn.application.queue": queue, "yarn.tags": ",".join(tags)}

    def _run(self, user: str, config: Mapping[str, str], main_class: str, *arguments: str) -> str:
        conf = self._write_configuration(config)
        log_file = conf / "client.log"
        environment = {
            **os.environ,
            "FLINK_CONF_DIR": str(conf),
            "FLINK_LIB_DIR": str(self._lib),
            "HADOOP_CONF_DIR": str(self._yarn.conf),
            "HADOOP_USER_NAME": user,
        }
        command = [*self._java(conf, log_file), main_class, *arguments]
        result = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=TIMEOUT)
        output = f"{result.stdout}{result.stderr}{log_file.read_text() if log_file.exists() else ''}"
        if result.returncode or not _APPLICATION_ID.search(output):
            raise HarnessError(f"{main_class} ended with {result.returncode}\n{output}\n{self._yarn.log_tails()}")
        return output

    def _java(self, conf: Path, log_file: Path) -> list[str]:
        places = [
            f"-Dlog.file={log_file}",
            f"-Dlog4j.configurationFile={(conf / 'log4j.properties').as_uri()}",
            f"-Djava.io.tmpdir={self._yarn.directory / 'tmp'}",
        ]
        class_path = f"{self._lib}/*:{self._yarn.conf}:{self._yarn.hadoop.lib}/*"
        return [str(tool("java")), *SLIM_OPTIONS, "-Xmx256m", *MODULE_OPTIONS, *places, "-cp", class_path]

    def _write_configuration(self, config: Mapping[str, str]) -> Path:
        number = len(list(self._yarn.directory.glob("flink-*")))
        conf = self._yarn.directory / f"flink-{number}"
        write_configuration(conf, {**flink_configuration(self._version, self._yarn.directory), **config})
        # YARN's client ships this very file with every container.
        (conf / "log4j.properties").write_text(LOGGING)
        return conf


def flink_configuration(version: str, directory: Path) -> dict[str, str]:
    """Return the Flink configuration of an application; memory and ports are for a developer's machine."""
    java_home = str(tool("java").resolve().parent.parent)
    memory = {key: value for key, value in MEMORY.items() if key != "taskmanager.cpu.cores"}
    parts = [value for key, value in memory.items() if key.startswith("taskmanager.") and not _is_no_part(key)]
    return {
        "jobmanager.scheduler": "adaptive",
        "rest.bind-address": LOOPBACK,
        "jobmanager.bind-host": LOOPBACK,
        "taskmanager.bind-host": LOOPBACK,
        "taskmanager.numberOfTaskSlots": "2",
        "parallelism.default": "1",
        "yarn.staging-directory": (directory / "staging").as_uri(),
        "yarn.application-attempts": "5",
        "yarn.heartbeat.interval": "1",
        "yarn.heartbeat.container-request-interval": "200",
        "resourcemanager.taskmanager-timeout": "5000",
        "execution.checkpointing.dir": (directory / "checkpoints").as_uri(),
        "env.java.opts.all": " ".join((*SLIM_OPTIONS, *MODULE_OPTIONS)),
        "containerized.master.env.JAVA_HOME": java_home,
        "containerized.taskmanager.env.JAVA_HOME": java_home,
        **FAST,
        **FAST_BY_VERSION[version],
        **memory,
        "taskmanager.memory.process.size": f"{sum(map(megabytes, parts))}m",
    }


def _is_no_part(key: str) -> bool:
    """Tell whether a size is none that adds up to the whole: a minimum that equals the maximum, or a segment's."""
    return key.endswith((".min", ".segment-size"))


def _dynamic(options: Mapping[str, str]) -> list[str]:
    return [f"-D{key}={value}" for key, value in options.items() if value]


def _id_in(output: str) -> str:
    return str(_APPLICATION_ID.findall(output)[-1])
