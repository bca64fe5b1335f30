"""How Flink divides the memory of a TaskManager, derived from its options. Sizes in bytes.

Source: the memory model of Flink's TaskManager (Flink documentation, "Set up TaskManager Memory").
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_DOWN, Context, Decimal

from flink_autoscaler.core.options.flink import FlinkOptions

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
    least: int
    greatest: int

    def checked(self, name: str) -> _Share:
        if self.least > self.greatest or not 0 <= self.fraction < 1:
            raise InvalidMemoryError(f"{name}: limits or fraction make no sense")
        return self

    def of(self, base: int) -> int:
        return self._clamped(_times(base, self.fraction))

    def inverse_of(self, rest: int) -> int:
        """Return the pool so that it is the fraction of itself and ``rest`` together."""
        return self._clamped(_times(rest, self.fraction / (1 - self.fraction)))

    def holds(self, size: int) -> bool:
        return self.least <= size <= self.greatest

    def _clamped(self, size: int) -> int:
        return max(self.least, min(size, self.greatest))


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
    return _Share(options.overhead_fraction, options.overhead_min, options.overhead_max).checked("JVM overhead")


def _network(options: FlinkOptions) -> _Share:
    declared = (FlinkOptions.network_fraction, FlinkOptions.network_min, FlinkOptions.network_max)
    if options.network_buffers is not None and not any(options.is_set(option) for option in declared):
        size = options.network_buffers * options.segment_size
        return _Share(0.0, size, size)
    greatest = _UNLIMITED if options.network_max is None else options.network_max
    return _Share(options.network_fraction, options.network_min, greatest).checked("network memory")


def _overhead_for(options: FlinkOptions, flink: int) -> int:
    """Return the JVM overhead that goes with a Flink size."""
    share = _overhead(options)
    if options.process_memory is None:
        return share.inverse_of(flink + options.metaspace)
    overhead = options.process_memory - flink - options.metaspace
    _require(share.holds(overhead), "the JVM overhead is out of its range")
    return overhead


def _from_pools(options: FlinkOptions, task_heap: int, managed: int) -> MemoryLayout:
    share = _network(options)
    others = options.framework_heap + options.framework_off_heap + task_heap + options.task_off_heap + managed
    if options.flink_memory is None:
        network = share.inverse_of(others)
    else:
        network = options.flink_memory - others
        _require(share.holds(network) and network >= 0, "the network memory is out of its range")
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
        _require(share.holds(network) and network >= 0, "the network memory is out of its range")
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
