"""A Spark Connect server that tells its version and does nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import grpc
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc


class VersionServer(base_pb2_grpc.SparkConnectServiceServicer):
    """A server of a version, on a free loopback port until the block ends."""

    def __init__(self, version: str) -> None:
        self._version = version

    def __enter__(self) -> Self:
        self._server = grpc.server(ThreadPoolExecutor(2))
        base_pb2_grpc.add_SparkConnectServiceServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.url = f"sc://127.0.0.1:{port}"
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop(None).wait(10)

    def AnalyzePlan(self, request: Any, context: Any) -> Any:  # noqa: N802 - as gRPC calls it
        """Answer what the version is, whatever the question."""
        version = base_pb2.AnalyzePlanResponse.SparkVersion(version=self._version)
        return base_pb2.AnalyzePlanResponse(session_id=request.session_id, spark_version=version)
