"""What Flink SQL shows of its tables: options that a query gives by a hint stand in the plan of its job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from typing import Final

from flink_autoscaler.clients.http.json_object import JsonObject

_HINT: Final = re.compile(r"OPTIONS options:\{([^{}]{1,16384})\}")
"""``/*+ OPTIONS('a'='b', 'c'='d') */`` becomes ``hints=[[[OPTIONS options:{a=b, c=d}]]]``."""


def hinted_options(answer: object) -> tuple[Mapping[str, str], ...]:
    """Decode the options that the tables of ``/jobs/:jobid`` were given by hints, table by table.

    Values are not quoted there: one with a comma is cut off at it.
    """
    nodes = JsonObject(answer, "job details").child("plan").children("nodes", "plan node")
    plan = " ".join(node.optional_text("description") or "" for node in nodes)
    return tuple(_options(hint) for hint in _HINT.findall(unescape(plan)))


def _options(hint: str) -> dict[str, str]:
    pairs = (each.partition("=") for each in hint.split(", "))
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}
