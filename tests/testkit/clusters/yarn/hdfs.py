"""A real HDFS: a NameNode and a DataNode."""

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from testkit.clusters.flink import waiting
from testkit.clusters.flink.configuration import free_ports
from testkit.clusters.flink.guard import Guard
from testkit.clusters.flink.process import FlinkProcess
from testkit.clusters.yarn.configuration import LOGGING, LOOPBACK, TIMEOUT, write_site
from testkit.clusters.yarn.distribution import hadoop
from testkit.clusters.yarn.jvm import hadoop_jvm

_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_STATE = "Hadoop:service=NameNode,name=NameNodeInfo"


class HdfsCluster:
    """A NameNode and a DataNode on the loopback, until the block ends; both end with the Python process in any case.

    Attributes:
        directory: Configuration, logs and blocks.
        conf: Hadoop's configuration, for ``HADOOP_CONF_DIR``: this HDFS is the default file system.
        name_node: The process.
    """

    name_node: FlinkProcess

    def __enter__(self) -> Self:
        """Format and start everything.

        Raises:
            MavenUnreachableError: Hadoop is not in the cache and cannot be downloaded.
            HarnessError: It did not come up; with the end of the logs.
        """
        self._hadoop = hadoop()
        with ExitStack() as cleanup:
            self.directory = Path(tempfile.mkdtemp(prefix="hdfs-cluster-")).resolve()
            cleanup.callback(shutil.rmtree, self.directory, ignore_errors=True)
            self._guard = Guard(remove=self.directory)
            cleanup.callback(self._guard.close)
            self._http = cleanup.enter_context(httpx.Client(timeout=60.0, trust_env=False))
            self._configure()
            self._processes = cleanup.enter_context(ExitStack())
            self._format()
            self.start_name_node(wait=False)
            self._start("datanode", _DATA_NODE)
            self.wait_until_usable()
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    @property
    def url(self) -> str:
        """Return the URL of the root, without a slash at the end."""
        return f"hdfs://{LOOPBACK}:{self._rpc_port}"

    def start_name_node(self, *, wait: bool = True) -> None:
        """Start the NameNode, also after it was killed; with ``wait`` return when files can be written."""
        self.name_node = self._start("namenode", _NAME_NODE)
        if wait:
            self.wait_until_usable()

    def wait_until_usable(self) -> None:
        """Wait until the NameNode has left its safe mode and knows the DataNode."""
        waiting.wait_until("HDFS is usable", self._is_usable, TIMEOUT, context=self.name_node.log_tail)

    def _is_usable(self) -> bool:
        self.name_node.require_running()
        try:
            answer = self._http.get(f"http://{LOOPBACK}:{self._web_port}/jmx", params={"qry": _STATE})
            found: list[dict[str, Any]] = answer.json()["beans"]
        except (httpx.HTTPError, ValueError):  # it is starting
            return False
        return bool(found and not found[0]["Safemode"] and found[0]["LiveNodes"] != "{}")

    def _configure(self) -> None:
        self.conf = self.directory / "conf"
        # Hadoop's jars lack the pages of their web servers, which do not start without the folders.
        for part in ("conf", "log", "tmp", "web/webapps/hdfs", "web/webapps/datanode"):
            (self.directory / part).mkdir(parents=True)
        (self.conf / "log4j.properties").write_text(LOGGING)
        self._rpc_port, self._web_port = free_ports(2)
        core = {"fs.defaultFS": self.url, "hadoop.tmp.dir": str(self.directory / "tmp")}
        write_site(self.conf / "core-site.xml", core)
        write_site(self.conf / "hdfs-site.xml", self._site())

    def _site(self) -> dict[str, str]:
        services = ("address", "http.address", "ipc.address")
        return {
            "dfs.namenode.name.dir": (self.directory / "name").as_uri(),
            "dfs.datanode.data.dir": (self.directory / "data").as_uri(),
            "dfs.namenode.rpc-address": f"{LOOPBACK}:{self._rpc_port}",
            "dfs.namenode.http-address": f"{LOOPBACK}:{self._web_port}",
            **{f"dfs.datanode.{service}": f"{LOOPBACK}:0" for service in services},
            "dfs.datanode.hostname": LOOPBACK,
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.replication": "1",
            # A NameNode that was started again hears of the DataNode within a second, and trusts it at once.
            "dfs.heartbeat.interval": "1",
            "dfs.namenode.safemode.extension": "0",
        }

    def _format(self) -> None:
        process = self._start("format", _NAME_NODE, "-format", "-nonInteractive")
        waiting.wait_until("HDFS is formatted", lambda: not process.is_running, TIMEOUT, context=process.log_tail)

    def _start(self, name: str, main_class: str, *arguments: str) -> FlinkProcess:
        places = (f"{self._hadoop.lib}/*", f"{self._hadoop.hdfs}/*", f"{self._hadoop.logging}/*")
        command = hadoop_jvm(name, self.directory, [str(self.conf), str(self.directory / "web"), *places])
        log_file = self.directory / "log" / f"{name}.log"
        process = FlinkProcess(name, [*command, main_class, *arguments], log_file, self._guard)
        self._processes.callback(process.stop)
        return process
