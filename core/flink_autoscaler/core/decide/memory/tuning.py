"""Memory tuning: TaskManager memory that fits what was measured. Sizes in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flink_autoscaler.core.decide.limits.slots import planned_parallelism, slots_after, taskmanagers_for
from flink_autoscaler.core.decide.memory.flink_memory import InvalidMemoryError, MemoryLayout, memory_layout
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.metrics import EvaluatedMetric, ScalingMetric
from flink_autoscaler.core.model.numbers import ceil_decimals, trunc32, trunc64
from flink_autoscaler.core.model.state import ConfigChanges, ScalingSummaries
from flink_autoscaler.core.model.topology import JobTopology, ShipStrategy
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.options.job import AutoscalerOptions

_UNITS = (("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10))
_REMOVALS = (
    "taskmanager.memory.flink.size",
    "taskmanager.memory.managed.size",
    "taskmanager.memory.size",
    "taskmanager.memory.task.heap.size",
)


@dataclass(frozen=True, slots=True)
class TuningInput:
    """What tuning depends on.

    Attributes:
        taskmanager_memory: Bytes of one TaskManager now; 0 when unknown.
        globals_: Evaluated cluster-wide metrics.
    """

    topology: JobTopology
    summaries: ScalingSummaries
    globals_: Mapping[ScalingMetric, EvaluatedMetric]
    options: AutoscalerOptions
    flink_options: FlinkOptions
    taskmanager_memory: int


class _Budget:
    """Memory that is handed out piece by piece."""

    def __init__(self, total: int) -> None:
        self.remaining = total

    def take(self, size: int) -> int:
        taken = min(size, self.remaining)
        self.remaining -= taken
        return taken


@dataclass(frozen=True, slots=True)
class _Pools:
    """The tuned pools, and the total they add up to with what is reserved."""

    network: int
    metaspace: int
    heap: int
    managed: int
    total: int


def tune(given: TuningInput) -> ConfigChanges | None:
    """Return the tuned configuration; None when the present one is not known or not valid.

    Raises:
        ConfigError: A memory option cannot be read.
    """
    try:
        layout = memory_layout(given.flink_options)
    except InvalidMemoryError:
        return None
    if given.taskmanager_memory <= 0:
        return None
    pools = _distribute(given, layout)
    return None if pools.total <= 0 else ConfigChanges(_overrides(layout, pools), _REMOVALS)


def _distribute(given: TuningInput, layout: MemoryLayout) -> _Pools:
    budget = _Budget(given.taskmanager_memory)
    for reserved in (layout.framework_off_heap, layout.task_off_heap, layout.overhead):
        budget.take(reserved)
    network = budget.take(network_memory(given.topology, given.summaries, given.flink_options))
    metaspace = budget.take(_with_overhead(given, ScalingMetric.METASPACE_MEMORY_USED))
    heap = budget.take(_with_overhead(given, ScalingMetric.HEAP_MEMORY_USED))
    managed = _managed(given, layout, budget)
    if given.options.memory_tuning_compensation:
        heap += budget.take(trunc64(_compensation(given) * heap) - heap)
    return _Pools(network, metaspace, heap, managed, given.taskmanager_memory - budget.remaining)


def network_memory(topology: JobTopology, summaries: ScalingSummaries, options: FlinkOptions) -> int:
    """Return the network memory that all channels of a TaskManager may need after a plan."""
    planned = planned_parallelism(topology, summaries)
    buffers = 0
    for vertex_id, vertex in topology.vertices.items():
        for peer, strategy in (*vertex.inputs.items(), *vertex.outputs.items()):
            buffers += _gate_buffers(planned[vertex_id], planned[peer], strategy, options)
    return options.task_slots * options.segment_size * buffers


def _gate_buffers(own: int, peer: int, strategy: ShipStrategy, options: FlinkOptions) -> int:
    if strategy is ShipStrategy.FORWARD and own == peer:
        channels = 1
    elif strategy in (ShipStrategy.FORWARD, ShipStrategy.RESCALE):
        channels = -(-peer // own)
    else:
        channels = peer
    return channels * options.buffers_per_channel + options.floating_buffers


def _with_overhead(given: TuningInput, metric: ScalingMetric) -> int:
    used = trunc64(given.globals_[metric].average)
    return trunc64(used * (1 + given.options.memory_tuning_overhead))


def _managed(given: TuningInput, layout: MemoryLayout, budget: _Budget) -> int:
    if trunc64(given.globals_[ScalingMetric.MANAGED_MEMORY_USED].average) <= 0:
        return 0
    is_maximized = given.options.memory_tuning_maximize_managed
    return budget.take(budget.remaining if is_maximized else layout.managed)


def _compensation(given: TuningInput) -> float:
    """Return by how much the heap has to grow when fewer TaskManagers share the work."""
    used = given.globals_[ScalingMetric.NUM_TASK_SLOTS_USED].current
    per_taskmanager = given.flink_options.task_slots
    before = taskmanagers_for(trunc32(used), per_taskmanager)
    after = taskmanagers_for(slots_after(given.topology, given.summaries, used), per_taskmanager)
    return max(1.0, before / after)


def _overrides(layout: MemoryLayout, pools: _Pools) -> dict[str, str]:
    flink = layout.flink + (pools.heap - layout.heap) + (pools.managed - layout.managed)
    flink += pools.network - layout.network
    return {
        "taskmanager.memory.framework.heap.size": "0 bytes",
        "taskmanager.memory.jvm-metaspace.size": format_memory(pools.metaspace),
        "taskmanager.memory.jvm-overhead.fraction": _fraction(layout.overhead, pools.total),
        "taskmanager.memory.managed.fraction": _fraction(pools.managed, flink),
        "taskmanager.memory.network.max": format_memory(pools.network),
        "taskmanager.memory.network.min": format_memory(pools.network),
        "taskmanager.memory.process.size": format_memory(pools.total),
    }


def _fraction(part: int, whole: int) -> str:
    return str(ceil_decimals(part / whole, 3)) if whole else "0.0"


def format_memory(size: int) -> str:
    """Print bytes as a whole number of the largest unit up to gigabytes that divides them."""
    for unit, factor in _UNITS:
        if size and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} bytes"


def recommendation_event(changes: ConfigChanges, options: AutoscalerOptions) -> Event:
    """Make the event that shows the tuned configuration, whether it is stored or not."""
    state = "enabled" if options.memory_tuning else "disabled"
    lines = "".join(f"{key}: {value}\n" for key, value in changes.overrides.items())
    message = (
        f"Memory tuning recommends the following configuration (automatic tuning is {state}):\n"
        f"{lines}Remove the following config entries if present: [{', '.join(changes.removals)}]"
    )
    interval = options.scaling_event_interval
    return Event(EventType.NORMAL, "Configuration recommendation", message, "MemoryTuning", interval)
