"""Applications of a YARN cluster, and which of them are looked after."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

RUNNING: Final = "RUNNING"
ENDED: Final = frozenset({"FINISHED", "FAILED", "KILLED"})
"""States of an application that will never run again."""

_ROOT: Final = "root."


@dataclass(frozen=True, slots=True)
class Application:
    """One application, as the ResourceManager sees it. Texts are empty where it does not say.

    Attributes:
        application_id: ``application_<start of the cluster>_<number>``.
        queue: Path or last name, depending on scheduler and version.
        state: YARN's word, such as RUNNING, in upper case.
        application_type: Such as ``Apache Flink``.
        tags: In lower case.
        tracking_url: Of the web proxy while the application runs.
        am_rpc_address: ``<host>:<port>`` as the ApplicationMaster has registered it; Flink registers the port of its
            REST server. Only shown to those who may view the application.
        am_logs: URL of the logs of the ApplicationMaster's container, different for every attempt.
        is_unmanaged: Whether the ApplicationMaster runs outside YARN: then it has chosen the tracking URL itself.
    """

    application_id: str
    name: str = ""
    user: str = ""
    queue: str = ""
    state: str = ""
    application_type: str = ""
    tags: frozenset[str] = frozenset()
    tracking_url: str = ""
    am_rpc_address: str = ""
    am_logs: str = ""
    is_unmanaged: bool = False

    @property
    def attempt(self) -> tuple[str, str, str]:
        """What differs between the attempts of an application, as far as it is shown."""
        return self.am_rpc_address, self.tracking_url, self.am_logs

    @property
    def has_ended(self) -> bool:
        """Whether it will never run again."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class ApplicationFilter:
    """Which applications are looked after. An empty tuple takes all.

    Attributes:
        types: Whole application types, compared without case.
        queues: Paths, with or without ``root.``, or last names.
        users: Owners, compared exactly.
        tags: Of which an application has at least one, compared without case.
        names: Shell patterns of which one matches the whole name; upper and lower case differ.
    """

    types: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def takes(self, application: Application) -> bool:
        """Tell whether an application is looked after, in whatever state it is."""
        return (
            (not self.types or application.application_type.casefold() in {each.casefold() for each in self.types})
            and (not self.queues or any(is_same_queue(queue, application.queue) for queue in self.queues))
            and (not self.users or application.user in self.users)
            and (not self.tags or not application.tags.isdisjoint(tag.lower() for tag in self.tags))
            and (not self.names or any(fnmatchcase(application.name, pattern) for pattern in self.names))
        )

    def query(self) -> dict[str, str]:
        """Return the parameters with which a ResourceManager leaves out most of what is not taken.

        None of them leaves out anything that is taken. Queues are not sent: an unknown one is an error to the
        capacity scheduler, and whether the path or the last name is expected depends on the version. Lists are
        separated by commas, so that what contains one is not sent either.
        """
        query = {"states": RUNNING, "deSelects": "resourceRequests"}
        if _can_be_listed(self.types):
            query["applicationTypes"] = ",".join(self.types)
        if _can_be_listed(self.tags):
            query["applicationTags"] = ",".join(self.tags).lower()
        if len(self.users) == 1:
            query["user"] = self.users[0]
        return query


def is_same_queue(one: str, other: str) -> bool:
    """Tell whether two names mean the same queue; a name without parents matches any path that ends with it."""
    one, other = one.removeprefix(_ROOT), other.removeprefix(_ROOT)
    if "." in one and "." in other:
        return one == other
    return one.rpartition(".")[2] == other.rpartition(".")[2]


def _can_be_listed(values: tuple[str, ...]) -> bool:
    return bool(values) and not any("," in value for value in values)
