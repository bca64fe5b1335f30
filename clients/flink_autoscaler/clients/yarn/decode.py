"""From the JSON of a ResourceManager to typed values.

What is the same answer looks different between versions: an empty list is ``null``, ``{}`` or ``""``, a list of one
is sometimes the element alone, and texts that look like numbers are sometimes numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from flink_autoscaler.clients.flink.fields import Fields, object_of, objects_in, wrong
from flink_autoscaler.clients.yarn.applications import Application

_APPLICATION_ID: Final = re.compile(r"application_[0-9]+_[0-9]+")
_NOTHING: Final[tuple[object, ...]] = (None, "", {}, [])


def applications(answer: object) -> tuple[Application, ...]:
    """Decode ``/ws/v1/cluster/apps``. An application that is listed twice is there once, as it is most complete.

    Raises:
        ResponseError: It has another shape, or an application without an id.
    """
    found: dict[str, Application] = {}
    for entry in _entries(answer):
        decoded = _application(entry)
        known = found.get(decoded.application_id)
        if known is None or not known.am_rpc_address:
            found[decoded.application_id] = decoded
    return tuple(found.values())


def application(answer: object) -> Application:
    """Decode ``/ws/v1/cluster/apps/<id>``.

    Raises:
        ResponseError: It has another shape.
    """
    return _application(object_of(object_of(answer, "the answer").get("app"), "app"))


def ha_state(answer: object) -> str | None:
    """Decode the state of ``/ws/v1/cluster/info``, in upper case; None where the answer does not tell."""
    info = answer.get("clusterInfo") if isinstance(answer, Mapping) else None
    state = info.get("haState") if isinstance(info, Mapping) else None
    return state.upper() if isinstance(state, str) and state else None


def _entries(answer: object) -> list[Fields]:
    if answer == {}:
        return []
    fields = object_of(answer, "the list of applications")
    if "apps" not in fields:
        raise wrong("the list of applications", "an object with apps", sorted(fields)[:3])
    apps = fields["apps"]
    entries = None if apps in _NOTHING else object_of(apps, "apps").get("app")
    if entries in _NOTHING:
        return []
    return [entries] if isinstance(entries, dict) else objects_in(entries, "apps.app")


def _application(entry: Fields) -> Application:
    application_id = _text(entry, "id", "application")
    if _APPLICATION_ID.fullmatch(application_id) is None:
        raise wrong("application.id", "application_<number>_<number>", entry.get("id"))
    where = application_id
    return Application(
        application_id=application_id,
        name=_text(entry, "name", where),
        user=_text(entry, "user", where),
        queue=_text(entry, "queue", where),
        state=_text(entry, "state", where).upper(),
        application_type=_text(entry, "applicationType", where),
        tags=_tags(_text(entry, "applicationTags", where)),
        tracking_url=_text(entry, "trackingUrl", where),
        am_rpc_address=_text(entry, "amRPCAddress", where),
        am_logs=_text(entry, "amContainerLogs", where),
        is_unmanaged=_text(entry, "unmanagedApplication", where).lower() == "true",
    )


def _tags(joined: str) -> frozenset[str]:
    return frozenset(tag.strip().lower() for tag in joined.split(",")) - {""}


def _text(entry: Fields, name: str, where: str) -> str:
    """Return a text; empty where it is missing or null."""
    value = entry.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, bool | int | float):
        return str(value)
    raise wrong(f"{where}.{name}", "text", value)
