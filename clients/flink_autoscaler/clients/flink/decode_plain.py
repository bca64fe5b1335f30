"""Answers that are as documented in every field, decoded in a third of the time.

Each function gives None for anything that is not quite plain: what is rare, what is wrong, and what has to be said
about it is left to :mod:`.decode`, which comes to the same for what is plain.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from operator import itemgetter
from typing import Any, Final, cast

from flink_autoscaler.clients.http.bounds import MOST_ENTRIES
from flink_autoscaler.clients.http.json_object import LATEST_MS, JsonObject
from flink_autoscaler.core.model.metrics import Aggregate
from flink_autoscaler.core.model.topology import IoMetrics, PlanNode, ShipStrategy, VertexDetails

_LONGEST_NAME: Final = 4096
_MOST: Final = 2**31 - 1
_MOST_RECORDS: Final = 2**63 - 1
_NAME: Final = itemgetter("id")
_AGGREGATES: Final = itemgetter("min", "max", "avg", "sum", "skew")
_FLOAT_OR_NONE: Final = frozenset({float, type(None)})
_SETTLED: Final = frozenset({"RUNNING", "FINISHED"})


def plain_aggregates(answer: object) -> dict[str, Aggregate] | None:
    """Decode what :func:`.decode.aggregates` does."""
    if type(answer) is not list or len(answer) > MOST_ENTRIES:
        return None
    try:
        names, rows = list(map(_NAME, answer)), list(map(_AGGREGATES, answer))
    except (KeyError, TypeError):
        return None
    if not (all(map(_is_text, names)) and _FLOAT_OR_NONE.issuperset(map(type, chain.from_iterable(rows)))):
        return None
    return dict(zip(names, map(Aggregate._make, rows), strict=True))


def plain_vertex(entry: JsonObject) -> VertexDetails | None:
    """Decode one entry of ``vertices`` in job details."""
    get = cast("Callable[[str], Any]", entry.get)
    vertex_id, name, status, group = get("id"), get("name"), get("status"), get("slotSharingGroupId")
    parallelism, most, start_ms = get("parallelism"), get("maxParallelism"), get("start-time")
    are_texts = _is_text(vertex_id) and _is_text(name) and _is_text(status) and (group is None or _is_text(group))
    are_counts = _is_count(parallelism, 1, _MOST) and _is_count(most, 1, _MOST) and _is_count(start_ms, 1, LATEST_MS)
    io, is_settled = _plain_io(get("metrics")), _is_settled(get("tasks"))
    if not (are_texts and are_counts) or io is None or is_settled is None:
        return None
    return VertexDetails(vertex_id, name, parallelism, most, status, io, group, start_ms, is_settled)


def plain_node(node: JsonObject) -> PlanNode | None:
    """Decode one entry of ``nodes`` in the plan of job details."""
    get = cast("Callable[[str], Any]", node.get)
    vertex_id, parallelism, inputs = get("id"), get("parallelism"), get("inputs")
    inputs = [] if inputs is None else inputs
    if not (_is_text(vertex_id) and _is_count(parallelism, 1, _MOST) and type(inputs) is list):
        return None
    if len(inputs) > MOST_ENTRIES:
        return None
    found = []
    for each in inputs:
        if type(each) is not dict or not _is_text(each.get("id")) or not _is_text(each.get("ship_strategy")):
            return None
        found.append((each["id"], ShipStrategy.of(each["ship_strategy"])))
    return PlanNode(vertex_id, parallelism, tuple(found))


def _plain_io(metrics: object) -> IoMetrics | None:
    if type(metrics) is not dict:
        return None
    get = cast("Callable[[str], Any]", metrics.get)
    read, written = get("read-records"), get("write-records")
    is_complete = get("read-records-complete") is True and get("write-records-complete") is True
    times = [get("accumulated-busy-time"), get("accumulated-idle-time"), get("accumulated-backpressured-time")]
    are_counts = _is_count(read, 0, _MOST_RECORDS) and _is_count(written, 0, _MOST_RECORDS)
    if not (are_counts and is_complete and all(type(each) is float or _is_count(each, 0, _MOST) for each in times)):
        return None
    busy, idle, backpressured = map(float, times)
    return IoMetrics(read, written, busy, is_complete=True, idle_ms=idle, backpressured_ms=backpressured)


def _is_settled(tasks: object) -> bool | None:
    if type(tasks) is not dict or not tasks:
        return None
    for state, count in tasks.items():
        if not _is_count(count, 0, _MOST):
            return None
        if count and state not in _SETTLED:
            return None
    return True


def _is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= _LONGEST_NAME and value.isascii()


def _is_count(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most
