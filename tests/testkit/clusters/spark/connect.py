"""A Spark Connect server with an embedded Spark, on a loopback port that stays the same when it is started again."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from testkit.clusters.flink.guard import Guard
from testkit.clusters.spark.launch import free_port, spark_class, wait_for_port

_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """A server, until the block ends.

    Args:
        python: Interpreter of the executors.
        master: Where the server's Spark runs.
    """

    def __init__(self, python: Path, *, master: str = "local[2]") -> None:
        self._python = python
        self._master = master
        self._port = free_port()

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="spark-connect-"))
        self._guard = Guard(remove=self.folder)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.stop()
        self._guard.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """Return the URL for clients."""
        return f"sc://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the server, also after it was killed."""
        conf = {
            "spark.master": self._master,
            "spark.driver.memory": "600m",
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={self.folder}",
            "spark.local.dir": str(self.folder),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
        }
        settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        arguments = ["org.apache.spark.deploy.SparkSubmit", *settings, "--class", _SERVER, "spark-internal"]
        python = {"PYSPARK_PYTHON": str(self._python)}
        self.process = spark_class("connect-server", arguments, self.folder, self._guard, python)
        wait_for_port(self.process, self._port)
