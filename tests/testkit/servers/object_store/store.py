"""An S3 server with one bucket."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from xml.etree import ElementTree

import httpx

from testkit.clusters.flink.guard import Guard
from testkit.clusters.flink.process import FlinkProcess
from testkit.clusters.spark.launch import free_port, wait_for_port
from testkit.servers.object_store.jars import s3_jars

BUCKET: Final = "metrics"
KEY_ID: Final = "AKIAOBJECTSTORETESTS"
SECRET: Final = "sesame-opens-the-bucket"

_NAMESPACE: Final = {"s3": "http://s3.amazonaws.com/doc/2006-03-01/"}


class ObjectStore:
    """A server and its bucket, until the block ends.

    Attributes:
        port: Of the loopback.
    """

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="object-store-"))
        self._guard = Guard(remove=self._folder)
        self.port = free_port()
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = FlinkProcess("object-store", command, self._folder / "moto.log", self._guard)
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=30.0)
        try:
            wait_for_port(self._process, self.port)
            self.make_bucket(BUCKET)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def url(self, folder: str) -> str:
        """Return what Hadoop calls a folder of the bucket."""
        return f"s3a://{BUCKET}/{folder}"

    def make_bucket(self, name: str) -> None:
        """Make a further bucket."""
        self._ask("PUT", f"/{name}")

    def objects(self, prefix: str = "") -> list[str]:
        """Return the keys of all objects that begin with a text."""
        answer = self._ask("GET", f"/{BUCKET}", params={"list-type": "2", "prefix": prefix})
        root = ElementTree.fromstring(answer.content)
        assert root.findtext("s3:IsTruncated", namespaces=_NAMESPACE) == "false"
        return [str(key.text) for key in root.iterfind("s3:Contents/s3:Key", _NAMESPACE)]

    def upload(self, file: Path, key: str) -> None:
        """Put a file into the bucket."""
        self._ask("PUT", f"/{BUCKET}/{key}", content=file.read_bytes())

    def forbid(self, *actions: str) -> None:
        """Answer some actions on objects with 403, such as ``PutObject``, whoever asks."""
        statement = {
            "Effect": "Deny",
            "Principal": "*",
            "Action": [f"s3:{action}" for action in actions],
            "Resource": f"arn:aws:s3:::{BUCKET}/*",
        }
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        self._ask("PUT", f"/{BUCKET}", params={"policy": ""}, content=json.dumps(policy).encode())

    def allow(self) -> None:
        """Undo what was forbidden."""
        self._ask("DELETE", f"/{BUCKET}", params={"policy": ""})

    def _ask(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, content: bytes | None = None
    ) -> httpx.Response:
        answer = self._client.request(method, path, params=params, content=content)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer

    def _stop(self) -> None:
        self._client.close()
        self._process.stop()
        self._guard.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def spark_options(port: int) -> dict[str, str]:
    """Return the settings of Spark that reach a server without TLS on a port of the loopback.

    Credentials are not among them: they are in the environment, ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``.
    """
    return {
        "spark.jars": ",".join(str(jar) for jar in s3_jars()),
        "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
