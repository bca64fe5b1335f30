"""Applications of a YARN cluster: which of them are managed, and where their JobManagers are.

What is the same answer of a ResourceManager looks different between versions: an empty list is ``null``, ``{}`` or
``""``, a list of one is sometimes the element alone, and texts that look like numbers are sometimes numbers. An
ApplicationMaster can register anything, so that nothing goes into a URL unchecked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

from flink_autoscaler.clients.http.bounds import MAX_ENTRIES
from flink_autoscaler.clients.http.json_object import JsonObject, type_error
from flink_autoscaler.core.error_boundary import try_call
from flink_autoscaler.core.errors import ResponseError

RUNNING: Final = "RUNNING"
ENDED: Final = frozenset({"FINISHED", "FAILED", "KILLED"})
"""States of an application that will never run again."""

_ROOT: Final = "root."
_APPLICATION_ID: Final = re.compile(r"application_[0-9]+_[0-9]+")
_NOTHING: Final[tuple[object, ...]] = (None, "", {}, [])
_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_HIGHEST_PORT: Final = 65535


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
        """Visible mark that differs between the attempts of an application."""
        return self.am_rpc_address, self.tracking_url, self.am_logs

    @property
    def has_ended(self) -> bool:
        """True when the application will never run again."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class ApplicationFilter:
    """Selection of applications to manage. An empty tuple takes all.

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

    def accepts(self, application: Application) -> bool:
        """Tell whether an application is managed, in whatever state it is."""
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


def direct_url(application: Application, scheme: str) -> str | None:
    """Return the URL of the REST server on the node where it runs; None while no usable address is shown."""
    match = _ADDRESS.fullmatch(application.am_rpc_address)
    if match is None or not 0 < int(match["port"]) <= _HIGHEST_PORT:
        return None
    return f"{scheme}://{match['host']}:{int(match['port'])}"


def proxy_url(application: Application) -> str | None:
    """Return the URL of the application in YARN's web proxy; None where the tracking URL is not one.

    The ResourceManager makes that URL, on its own host or on that of a separate proxy, for every application that it
    manages. The tracking URL of an unmanaged one is the owner's own choice, and credentials are sent there: it is
    never taken.
    """
    parts = _split(application.tracking_url)
    if parts is None or application.is_unmanaged:
        return None
    path = parts.path.rstrip("/")
    if not path.endswith(f"/proxy/{application.application_id}"):
        return None
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host in lower case, and port of a URL."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port


def _split(url: str) -> SplitResult | None:
    """Take a URL of the web apart; None where it is none, or contains what a base URL does not."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    is_bare = "@" not in parts.netloc and not parts.query and not parts.fragment
    return parts if is_usable and is_bare and url.isascii() and url.isprintable() and " " not in url else None


class ListedApplications(NamedTuple):
    """Applications that a ResourceManager lists, each once, and the reasons why others cannot be read, by their id."""

    applications: tuple[Application, ...]
    unreadable: Mapping[str, ResponseError]


def decode_applications(answer: object) -> ListedApplications:
    """Decode ``/ws/v1/cluster/apps``. An application that is listed twice is there once, as it is most complete.

    Raises:
        ResponseError: It has another shape as a whole.
    """
    found: dict[str, Application] = {}
    unreadable: dict[str, ResponseError] = {}
    for number, entry in enumerate(_application_list(answer)):
        decoded = try_call(partial(_application, entry), ResponseError)
        if isinstance(decoded, Application):
            known = found.get(decoded.application_id)
            if known is None or not known.am_rpc_address:
                found[decoded.application_id] = decoded
        else:
            # Who starts an application has a say in some fields: it is no matter of the others.
            error = decoded if isinstance(decoded, ResponseError) else ResponseError(str(decoded))
            unreadable[_id_of(entry) or f"application {number} of the list"] = error
    return ListedApplications(tuple(found.values()), unreadable)


def _id_of(entry: object) -> str | None:
    found = entry.get("id") if isinstance(entry, dict) else None
    return found if isinstance(found, str) and _APPLICATION_ID.fullmatch(found) else None


def decode_application(answer: object) -> Application:
    """Decode ``/ws/v1/cluster/apps/<id>``.

    Raises:
        ResponseError: It has another shape.
    """
    return _application(JsonObject(answer, "the answer").get("app"))


def ha_state(answer: object) -> str | None:
    """Decode the state of ``/ws/v1/cluster/info``, in upper case; None where the answer does not tell."""
    info = answer.get("clusterInfo") if isinstance(answer, Mapping) else None
    state = info.get("haState") if isinstance(info, Mapping) else None
    return state.upper() if isinstance(state, str) and state else None


def _application_list(answer: object) -> list[object]:
    if answer == {}:
        return []
    fields = JsonObject(answer, "the list of applications")
    if "apps" not in fields:
        raise type_error("the list of applications", "an object with apps", sorted(fields)[:3])
    apps = fields.get("apps")
    entries = None if apps in _NOTHING else JsonObject(apps, "apps").get("app")
    if entries in _NOTHING:
        return []
    if isinstance(entries, dict):
        return [entries]
    if not isinstance(entries, list) or len(entries) > MAX_ENTRIES:
        raise type_error("apps.app", f"a list of at most {MAX_ENTRIES} objects", entries)
    return entries


def _application(value: object) -> Application:
    entry = JsonObject(value, "apps.app")
    application_id = entry.with_name("application").plain_text("id")
    if _APPLICATION_ID.fullmatch(application_id) is None:
        raise type_error("application.id", "application_<number>_<number>", entry.get("id"))
    entry = entry.with_name(application_id)
    return Application(
        application_id=application_id,
        name=entry.plain_text("name"),
        user=entry.plain_text("user"),
        queue=entry.plain_text("queue"),
        state=entry.plain_text("state").upper(),
        application_type=entry.plain_text("applicationType"),
        tags=frozenset(tag.strip().lower() for tag in entry.plain_text("applicationTags").split(",")) - {""},
        tracking_url=entry.plain_text("trackingUrl"),
        am_rpc_address=entry.plain_text("amRPCAddress"),
        am_logs=entry.plain_text("amContainerLogs"),
        is_unmanaged=entry.plain_text("unmanagedApplication").lower() == "true",
    )
