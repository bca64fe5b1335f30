"""What may be asked of the cluster in a pass: what was decided, what people pinned, and nothing the job cannot have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flink_autoscaler.core.model.decision import PassOutcome, PassRequest
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.orders import Pin
from flink_autoscaler.core.model.supervision import Supervision, SupervisionPhase, Vector
from flink_autoscaler.core.model.topology import JobDetails


def realizable(outcome: PassOutcome, request: PassRequest, details: JobDetails | None) -> Vector:
    """Return what is wanted with the pins applied, without what the job does not have or could not run with.

    Args:
        outcome: Of the pass.
        request: Of the pass.
        details: The job as it is; None when it could not be read. Where there are pins nothing is wanted then: without
            them the job would go back to what was decided, and forth again in the next pass.
    """
    options, orders = request.context.options, request.orders
    is_dry = orders.dry_run is not None or options.dry_run
    if details is None or not details.vertices:
        return {} if orders.pins and not outcome.is_repair else outcome.wanted
    wanted = outcome.wanted if is_dry else {**outcome.wanted, **_pinned(outcome.state.supervision, request, details)}
    if not options.improves(options.supervised_rescales):
        return wanted
    most = {vertex.vertex_id: vertex.max_parallelism for vertex in details.vertices}
    return {
        v: min(parallelism, most[v]) if most[v] > 0 else parallelism for v, parallelism in wanted.items() if v in most
    }


def _pinned(supervision: Supervision, request: PassRequest, details: JobDetails) -> dict[VertexId, int]:
    """Return the parallelism of every pinned vertex; nothing while a failed rescale is undone and after that."""
    if supervision.phase in (SupervisionPhase.ROLLING_BACK, SupervisionPhase.PAUSED):
        return {}
    return {
        vertex_id: _below_what_failed(supervision, vertex_id, pin)
        for vertex_id, pin in _pins(supervision, request.orders.pinned(details.vertices)).items()
    }


def _pins(supervision: Supervision, pins: Mapping[VertexId, Pin]) -> dict[VertexId, Pin]:
    """Leave out those that somebody else's change of the requirements came after."""
    edit = supervision.edit
    return {v: pin for v, pin in pins.items() if edit is None or pin.signed.at_ms > edit.at_ms}


def _below_what_failed(supervision: Supervision, vertex_id: VertexId, pin: Pin) -> int:
    """Hold a pin below a parallelism that failed since it was given."""
    return min((pin.parallelism, *_limits(supervision, vertex_id, pin)))


def _limits(supervision: Supervision, vertex_id: VertexId, pin: Pin) -> Iterator[int]:
    for entry in supervision.quarantine:
        if entry.vertex_id == vertex_id and entry.since_ms >= pin.signed.at_ms:
            yield max(1, entry.parallelism - 1)
