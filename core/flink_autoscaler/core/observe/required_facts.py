"""How much is asked about a job beside its metrics: how its rescale goes, and how many slots it waits for."""

from __future__ import annotations

from enum import IntEnum

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.orders import still_to_do
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassRequest


class RequiredFacts(IntEnum):
    """How much has to be asked about the rescale of a job."""

    NOTHING = 0
    REQUIREMENTS = 1
    EVERYTHING = 2


def required_facts(request: PassRequest) -> RequiredFacts:
    """Tell what to ask about a job in this pass."""
    options, state, orders = request.context.options, request.state, request.orders
    if not options.supervises_rescales or request.context.job_id is None:
        return RequiredFacts.NOTHING
    supervision = state.supervision
    has_order = any(still_to_do(order, supervision) for order in (orders.rollback, orders.reset) if order)
    if has_order or supervision.quarantine or supervision.is_active:
        return RequiredFacts.EVERYTHING
    is_engaged = bool(state.overrides or orders.pins or supervision.seen or supervision.edit)
    return RequiredFacts.REQUIREMENTS if is_engaged or waits_for_slots(request) else RequiredFacts.NOTHING


def shares_slots(context: JobAutoScalerContext) -> bool:
    """Tell whether the job has to do with the slots that its cluster has, because nobody adds any as it asks."""
    if context.capacity is None or not context.capacity.is_fixed:
        return False
    options = context.options
    try:
        return options.filters_rescales and options.capacity_enabled
    except ConfigError:  # the pass says what is wrong with it
        return False


def waits_for_slots(request: PassRequest) -> bool:
    """Tell whether a job may wait for slots that others have, so that it is to be found out how many it needs."""
    context = request.context
    if context.status is not JobStatus.CREATED or context.job_id is None or not shares_slots(context):
        return False
    return context.options.supervises_rescales
