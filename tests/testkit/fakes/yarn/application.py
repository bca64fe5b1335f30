"""Applications of the fake YARN cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from testkit.fakes.flink import FakeFlink

CLUSTER_MS = 1_700_000_000_000
ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})


@dataclass
class FakeApplication:
    """One application.

    Attributes:
        number: Last part of its id.
        jobmanager: What its ApplicationMaster is; None while none has registered.
        is_visible: Whether those who ask may view it: else its address is not shown.
        attempt: Number of the present attempt.
        extra: Fields that the answer has in addition, or instead; None leaves a field out.
    """

    number: int
    name: str = "Flink session cluster"
    jobmanager: FakeFlink | None = None
    user: str = "alice"
    queue: str = "default"
    state: str = "RUNNING"
    application_type: str = "Apache Flink"
    tags: str = ""
    is_visible: bool = True
    attempt: int = 1
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Its id."""
        return f"application_{CLUSTER_MS}_{self.number:04d}"

    def json(self, proxy_url: str) -> dict[str, object]:
        """Return what a ResourceManager says about it."""
        fields = {
            "id": self.id,
            "user": self.user,
            "name": self.name,
            "queue": self.queue,
            "state": self.state,
            "finalStatus": "UNDEFINED",
            "clusterId": CLUSTER_MS,
            "applicationType": self.application_type,
            "applicationTags": self.tags,
            "unmanagedApplication": False,
            **self._registered(proxy_url),
            **self.extra,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _registered(self, proxy_url: str) -> dict[str, object]:
        if self.state in ENDED:
            return {"trackingUI": "History", "trackingUrl": proxy_url}
        if self.jobmanager is None or self.state != "RUNNING":
            return {"trackingUI": "UNASSIGNED"}
        container = f"container_{CLUSTER_MS}_{self.number:04d}_{self.attempt:02d}_000001"
        hidden = {
            "amRPCAddress": urlsplit(self.jobmanager.url).netloc,
            "amContainerLogs": f"http://node:8042/node/containerlogs/{container}/{self.user}",
        }
        return {"trackingUI": "ApplicationMaster", "trackingUrl": proxy_url, **(hidden if self.is_visible else {})}

    def matches(self, query: Mapping[str, str]) -> bool:
        """Tell whether a query takes it, by the rules of Hadoop."""
        tags = set(self.tags.lower().split(","))
        return (
            _is_one_of(self.state, query.get("states"))
            and _is_one_of(self.application_type, query.get("applicationTypes"))
            and query.get("user") in (None, self.user)
            and ("applicationTags" not in query or not tags.isdisjoint(query["applicationTags"].lower().split(",")))
        )


def _is_one_of(value: str, listed: str | None) -> bool:
    return listed is None or value.lower() in listed.lower().split(",")
