"""How much of what a vertex receives comes along each of the edges into it.

Flink counts what a vertex sends over all its edges together, each record once per edge, and also records that no edge
takes, such as the main output of a vertex of which only a side output is connected. What it receives is counted where
it arrives. So the receiver says how much there is, and what the senders say only divides it between them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.numbers import NAN


class Sender(NamedTuple):
    """A vertex that feeds another one.

    Attributes:
        sent: Records, or records/s, along all its edges together; NaN when unknown.
        edges: Vertices that it feeds.
    """

    sent: float
    edges: int


def edge_rates(received: float, senders: Mapping[VertexId, Sender]) -> dict[VertexId, float]:
    """Divide what a vertex received between the vertices that feed it.

    What a sender with no other edge sent can only have come here, and is taken first. The rest is shared out between
    the others in proportion to what they sent per edge.

    Args:
        received: Records, or records/s, of the vertex; NaN when unknown.
        senders: What feeds it, in the same unit.

    Returns:
        By sender, none negative, in sum what was received; all NaN where that, or one of several senders, is unknown or
        has gone back.
    """
    if not 0.0 <= received < math.inf:
        return dict.fromkeys(senders, NAN)
    if len(senders) <= 1 or received == 0.0:
        return dict.fromkeys(senders, received)
    if not all(0.0 <= each.sent < math.inf for each in senders.values()):
        return dict.fromkeys(senders, NAN)
    parts = {v: each.sent for v, each in senders.items() if each.edges == 1}
    shared = {v: each.sent / each.edges for v, each in senders.items() if each.edges != 1}
    rest = max(0.0, received - sum(parts.values()))
    parts |= _scaled(shared, rest)
    # Counters of two vertices are of two instants, so the parts never add up exactly by themselves.
    return _scaled(parts, received) if any(parts.values()) else dict.fromkeys(senders, received / len(senders))


def _scaled(parts: Mapping[VertexId, float], total: float) -> dict[VertexId, float]:
    """Return parts of the same proportions that add up to a total; zeros stay."""
    greatest = max(parts.values(), default=0.0)
    if greatest == 0.0:
        return dict(parts)
    # By the greatest first: the sum of the parts themselves may overflow.
    shares = {v: part / greatest for v, part in parts.items()}
    whole = sum(shares.values())
    return {v: total * (share / whole) for v, share in shares.items()}
