"""Memory tuning: TaskManager memory that fits what was measured, by Flink's division of it. Sizes in bytes.

Source: the memory model of Flink's TaskManager (Flink documentation, "Set up TaskManager Memory").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context, Decimal

from flink_autoscaler.core.decide.slots import planned_parallelism, slots_after, taskmanagers_for
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.metrics import EvaluatedMetric, ScalingMetric
from flink_autoscaler.core.model.numbers import ceil_decimals, trunc32, trunc64
from flink_autoscaler.core.model.state import ConfigChanges, ScalingSummaries
from flink_autoscaler.core.model.topology import JobTopology, ShipStrategy
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.options.job import AutoscalerOptions

_UNLIMITED = 2**63 - 1
_EXACT = Context(prec=60)


class InvalidMemoryError(ValueError):
    """The options do not describe a TaskManager that can be started."""


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """The pools of a TaskManager, bytes."""

    framework_heap: int
    task_heap: int
    framework_off_heap: int
    task_off_heap: int
    managed: int
    network: int
    metaspace: int
    overhead: int

    @property
    def heap(self) -> int:
        """Framework and task heap."""
        return self.framework_heap + self.task_heap

    @property
    def flink(self) -> int:
        """Everything but the JVM's own parts."""
        return self.heap + self.framework_off_heap + self.task_off_heap + self.managed + self.network


@dataclass(frozen=True, slots=True)
class _Share:
    """A pool that is a fraction of something, within limits."""

    fraction: float
    minimum: int
    maximum: int

    def validate(self, name: str) -> _Share:
        if self.minimum > self.maximum or not 0 <= self.fraction < 1:
            raise InvalidMemoryError(f"{name}: limits or fraction make no sense")
        return self

    def of(self, base: int) -> int:
        return self._clamp(_times(base, self.fraction))

    def inverse_of(self, rest: int) -> int:
        """Return the pool so that it is the fraction of itself and ``rest`` together."""
        return self._clamp(_times(rest, self.fraction / (1 - self.fraction)))

    def contains(self, size: int) -> bool:
        return self.minimum <= size <= self.maximum

    def _clamp(self, size: int) -> int:
        return max(self.minimum, min(size, self.maximum))


def _times(size: int, fraction: float) -> int:
    product = _EXACT.multiply(Decimal(size), Decimal(repr(fraction)))
    return int(product.to_integral_value(ROUND_DOWN))


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise InvalidMemoryError(problem)


def memory_layout(options: FlinkOptions) -> MemoryLayout:
    """Derive the layout.

    Raises:
        InvalidMemoryError: The options contradict each other or are too few.
        ConfigError: A value cannot be read.
    """
    if options.task_heap is not None and options.managed_memory is not None:
        return _from_pools(options, options.task_heap, options.managed_memory)
    if options.flink_memory is not None:
        return _split(options, options.flink_memory, _overhead_for(options, options.flink_memory))
    if options.process_memory is not None:
        overhead = _overhead(options).of(options.process_memory)
        total = options.process_memory - overhead - options.metaspace
        _require(total >= 0, "the JVM's parts exceed the process size")
        return _split(options, total, overhead)
    raise InvalidMemoryError("neither the process size nor the Flink size nor the pools are set")


def _overhead(options: FlinkOptions) -> _Share:
    return _Share(options.overhead_fraction, options.overhead_min, options.overhead_max).validate("JVM overhead")


def _network(options: FlinkOptions) -> _Share:
    declared = (FlinkOptions.network_fraction, FlinkOptions.network_min, FlinkOptions.network_max)
    if options.network_buffers is not None and not any(options.is_set(option) for option in declared):
        size = options.network_buffers * options.segment_size
        return _Share(0.0, size, size)
    greatest = _UNLIMITED if options.network_max is None else options.network_max
    return _Share(options.network_fraction, options.network_min, greatest).validate("network memory")


def _overhead_for(options: FlinkOptions, flink: int) -> int:
    """Return the JVM overhead that goes with a Flink size."""
    share = _overhead(options)
    if options.process_memory is None:
        return share.inverse_of(flink + options.metaspace)
    overhead = options.process_memory - flink - options.metaspace
    _require(share.contains(overhead), "the JVM overhead is out of its range")
    return overhead


def _from_pools(options: FlinkOptions, task_heap: int, managed: int) -> MemoryLayout:
    share = _network(options)
    others = options.framework_heap + options.framework_off_heap + task_heap + options.task_off_heap + managed
    if options.flink_memory is None:
        network = share.inverse_of(others)
    else:
        network = options.flink_memory - others
        _require(share.contains(network) and network >= 0, "the network memory is out of its range")
    return _layout(options, task_heap, managed, network, _overhead_for(options, others + network))


def _split(options: FlinkOptions, flink: int, overhead: int) -> MemoryLayout:
    share = _network(options)
    managed = options.managed_memory
    if managed is None:
        _require(0 <= options.managed_fraction < 1, "the managed fraction makes no sense")
        managed = _times(flink, options.managed_fraction)
    fixed = options.framework_heap + options.framework_off_heap + options.task_off_heap + managed
    if options.task_heap is not None:
        network = flink - fixed - options.task_heap
        _require(share.contains(network) and network >= 0, "the network memory is out of its range")
        return _layout(options, options.task_heap, managed, network, overhead)
    network = share.of(flink)
    _require(flink >= fixed + network, "the pools exceed the Flink size")
    return _layout(options, flink - fixed - network, managed, network, overhead)


def _layout(options: FlinkOptions, task_heap: int, managed: int, network: int, overhead: int) -> MemoryLayout:
    return MemoryLayout(
        framework_heap=options.framework_heap,
        task_heap=task_heap,
        framework_off_heap=options.framework_off_heap,
        task_off_heap=options.task_off_heap,
        managed=managed,
        network=network,
        metaspace=options.metaspace,
        overhead=overhead,
    )


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


def tune_memory(given: TuningInput) -> ConfigChanges | None:
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
