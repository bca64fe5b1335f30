"""What ``hpa`` and ``varga`` remember of a job from pass to pass, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, Proposal
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.policies.base.one_number import proposal_of
from flink_autoscaler.core.policies.base.quantities import subtasks
from flink_autoscaler.core.policies.hpa.behavior import Behaved, Behavior, Track, behave


@dataclass(frozen=True, slots=True)
class HpaMemory:
    """What is remembered about a job graph; another graph begins anew.

    Attributes:
        vertices: The ids of the graph.
        tracks: Of the numbers, by vertex or other name.
        backlog_at: When the job was last seen with a backlog.
        synced_at: When it was evaluated last.
        targets: What that came to.
        blocks_down: The same.
    """

    vertices: frozenset[VertexId]
    tracks: Mapping[str, Track] = field(default_factory=dict)
    backlog_at: float | None = None
    synced_at: float | None = None
    targets: Mapping[VertexId, int] = field(default_factory=dict)
    blocks_down: bool = False

    @classmethod
    def read(cls, state: Mapping[str, Any], obs: JobObservation) -> HpaMemory:
        """Read what :meth:`as_json` wrote; empty for another graph and for a state that cannot be read."""
        empty = cls(frozenset(obs.vertices))
        try:
            memory = cls(
                vertices=frozenset(state["vertices"]),
                tracks={name: track for name, saved in state["tracks"].items() if (track := Track.read(saved))},
                backlog_at=state["backlog_at"],
                synced_at=state["synced_at"],
                targets=dict(state["targets"]),
                blocks_down=state["blocks_down"],
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return empty
        return memory if memory.vertices == empty.vertices else empty

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "vertices": sorted(self.vertices),
            "tracks": {name: track.saved() for name, track in self.tracks.items()},
            "backlog_at": self.backlog_at,
            "synced_at": self.synced_at,
            "targets": dict(self.targets),
            "blocks_down": self.blocks_down,
        }

    def noticed(self, obs: JobObservation, *, is_behind: bool) -> HpaMemory:
        """Return what is remembered after a look at the backlog."""
        return replace(self, backlog_at=obs.now if is_behind else self.backlog_at)

    def behaved(self, name: str, desired: int, current: int, now: float, behavior: Behavior) -> Behaved:
        """Return how far one of the numbers may go now."""
        return behave(desired, current, now, self.tracks.get(name), behavior)

    def decided(
        self, now: float, tracks: Mapping[str, Track], targets: Mapping[VertexId, int], *, blocks_down: bool
    ) -> HpaMemory:
        """Return what is remembered after an evaluation."""
        return replace(self, tracks=tracks, synced_at=now, targets=targets, blocks_down=blocks_down)

    def repeated(
        self, policy: str, obs: JobObservation, sync_period: float, state: Mapping[str, Any]
    ) -> Proposal | None:
        """Return once more what the last evaluation came to; None when the next one is due."""
        if self.synced_at is None or not 0 <= obs.now - self.synced_at < sync_period:
            return None
        targets = {v: subtasks(self.targets.get(v, vertex.parallelism), vertex) for v, vertex in obs.vertices.items()}
        reason = Reason("BETWEEN_SYNCS", f"as {obs.now - self.synced_at:.0f} s ago (hpa.sync-period)")
        return proposal_of(policy, obs, targets, (reason,), state, blocks_down=self.blocks_down)


def behavior_reasons(desired: int, behaved: Behaved, vertex_id: VertexId | None = None) -> tuple[Reason, ...]:
    """Return what windows and rate limits made of a recommendation; nothing when they left it as it was."""
    reasons = []
    if behaved.stabilized != desired:
        text = f"{desired} is advised; recommendations of the window make it {behaved.stabilized}"
        reasons.append(Reason("STABILIZED", text, vertex_id))
    if behaved.number != behaved.stabilized:
        text = f"{behaved.stabilized} is advised; rate limits allow {behaved.number} now"
        reasons.append(Reason("RATE_LIMITED", text, vertex_id))
    return tuple(reasons)
