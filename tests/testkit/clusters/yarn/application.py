"""A Flink application on YARN."""

import os
import re
import signal
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.rest import FlinkRest
from testkit.clusters.yarn.configuration import TIMEOUT
from testkit.clusters.yarn.processes import processes_of

if TYPE_CHECKING:
    from testkit.clusters.yarn.cluster import YarnCluster

Json = Any

_CLIENT = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
_ENTRY_POINT = re.compile(r"org\.apache\.flink\.yarn\.entrypoint\.Yarn\w+")
_ENDED = ("FINISHED", "FAILED", "KILLED")


class YarnApplication:
    """A Flink session or application cluster on YARN, as YARN and Flink show it.

    Attributes:
        id: Such as ``application_1700000000000_0001``.
        user: Who owns it.
    """

    def __init__(self, yarn: "YarnCluster", application_id: str, user: str) -> None:
        """Refer to an application that was submitted."""
        self.id = application_id
        self.user = user
        self._yarn = yarn

    def report(self) -> dict[str, Json]:
        """Return what the active ResourceManager says about it."""
        application: dict[str, Json] = self._yarn.get(f"/apps/{quote(self.id)}")["app"]
        return application

    def state(self) -> str:
        """Return YARN's state, such as ``RUNNING``."""
        return str(self.report()["state"])

    def attempts(self) -> int:
        """Return how many ApplicationMasters there have been."""
        return len(self._yarn.get(f"/apps/{quote(self.id)}/appattempts")["appAttempts"]["appAttempt"])

    def address(self) -> str | None:
        """Return host and port of the JobManager's REST endpoint, ``None`` while there is none."""
        address: str | None = self.report().get("amRPCAddress")
        return address

    def rest(self) -> FlinkRest:
        """Return the REST API of the current JobManager, directly; the caller closes it."""
        address = self.address()
        if address is None:
            raise HarnessError(f"{self.id} has no JobManager now: {self.report()}")
        return FlinkRest(f"http://{address}")

    def running_job(self, name: str) -> str | None:
        """Return the id of the job of a name if all its subtasks run, else ``None``."""
        address = self.address()
        if address is None:
            return None
        rest = FlinkRest(f"http://{address}")
        try:
            overview = rest.reachable("/jobs/overview") or {"jobs": []}
            ids = [str(job["jid"]) for job in overview["jobs"] if job["name"] == name and _runs(job)]
            return ids[0] if ids else None
        finally:
            rest.close()

    def wait_for_job(self, name: str, timeout: float = TIMEOUT) -> str:
        """Return the id of the job of a name when all its subtasks run."""
        return self._yarn.wait_until(f"job {name} of {self.id} runs", lambda: self.running_job(name) or "", timeout)

    def parallelism(self, name: str, vertex: str) -> int:
        """Return the parallelism of a vertex of the job of a name as Flink says it; 0 while not all subtasks run."""
        job_id = self.running_job(name)
        address = self.address()
        if job_id is None or address is None:
            return 0
        rest = FlinkRest(f"http://{address}")
        try:
            details = rest.reachable(f"/jobs/{job_id}") or {"vertices": []}
            return next((int(each["parallelism"]) for each in details["vertices"] if each["name"] == vertex), 0)
        finally:
            rest.close()

    def application_master_pid(self) -> int:
        """Return the process id of the JVM that the JobManager is in."""
        for pid, command in processes_of(self._yarn.directory).items():
            is_jvm = command[0].endswith("/java")
            if is_jvm and _ENTRY_POINT.search(" ".join(command)) and any(self.id in word for word in command):
                return pid
        raise HarnessError(f"{self.id} has no ApplicationMaster now")

    def kill_application_master(self) -> None:
        """End the JobManager at once, as a crash would; return when the next attempt has its own address."""
        before = self.address()
        os.kill(self.application_master_pid(), signal.SIGKILL)
        self._yarn.wait_until(
            f"another attempt of {self.id} runs", lambda: self.address() not in (None, before), TIMEOUT
        )

    def kill(self) -> None:
        """Have YARN kill it, if it has not ended; return when it has."""
        if self.state() not in _ENDED:
            self._yarn.run_tool(_CLIENT, "application", "-kill", self.id, user=self.user)
        self._yarn.wait_until(f"{self.id} has ended", lambda: self.state() in _ENDED, TIMEOUT)


def _runs(job: Json) -> bool:
    return bool(job["state"] == "RUNNING" and 0 < job["tasks"]["total"] == job["tasks"]["running"])
