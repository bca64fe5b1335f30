"""The options of Flink itself that the autoscaler reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.option import Option, OptionSet

T = TypeVar("T")


def _flink(key: str, parse: Callable[[str], T], default: str, deprecated: tuple[str, ...] = ()) -> Option[T]:
    return Option(key, parse, parse(default), default, deprecated_keys=deprecated)


def _flink_unset(key: str, parse: Callable[[str], T | None], deprecated: tuple[str, ...] = ()) -> Option[T | None]:
    return Option(key, parse, None, "", deprecated_keys=deprecated)


def _count(text: str) -> int:
    """Read a count of at least 1, which is also what stands for one that makes no sense."""
    try:
        return max(1, syntax.parse_int(text))
    except ValueError:
        return 1


def _readable_duration(text: str) -> syntax.Duration | None:
    """Read a duration; None for what is none."""
    try:
        return _duration_or_none(text)
    except ValueError:
        return None


def _duration_or_none(text: str) -> syntax.Duration | None:
    """Read a duration; a negative one stands for "for ever"."""
    return None if text.strip().startswith("-") else syntax.parse_duration(text)


class FlinkOptions(OptionSet):
    """Options of Flink itself that the autoscaler reads from a job's configuration."""

    parallelism_overrides = _flink("pipeline.jobvertex-parallelism-overrides", syntax.parse_map, "")
    task_slots = _flink("taskmanager.numberOfTaskSlots", syntax.parse_int, "1")
    scheduler = _flink("jobmanager.scheduler", str, "")
    scheduler_mode = _flink("scheduler-mode", str, "")
    cooldown = _flink(
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
        _duration_or_none,
        "30 s",
        deprecated=("jobmanager.adaptive-scheduler.scaling-interval.min",),
    )
    min_parallelism_increase = _flink("jobmanager.adaptive-scheduler.min-parallelism-increase", _count, "1")
    forced_rescale = _flink_unset("jobmanager.adaptive-scheduler.scaling-interval.max", _readable_duration)
    executing_stabilization = _flink(
        "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout", _duration_or_none, "60 s"
    )
    submission_stabilization = _flink(
        "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout",
        _duration_or_none,
        "10 s",
        deprecated=("jobmanager.adaptive-scheduler.resource-stabilization-timeout",),
    )
    resource_wait = _flink(
        "jobmanager.adaptive-scheduler.submission.resource-wait-timeout",
        _duration_or_none,
        "5 min",
        deprecated=("jobmanager.adaptive-scheduler.resource-wait-timeout",),
    )
    trigger_delay = _flink_unset("jobmanager.adaptive-scheduler.rescale-trigger.max-delay", _duration_or_none)
    trigger_failures = _flink(
        "jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures", syntax.parse_int, "2"
    )
    checkpoint_interval = _flink_unset("execution.checkpointing.interval", _duration_or_none)
    segment_size = _flink("taskmanager.memory.segment-size", syntax.parse_memory, "32 kb")
    buffers_per_channel = _flink("taskmanager.network.memory.buffers-per-channel", syntax.parse_int, "2")
    floating_buffers = _flink("taskmanager.network.memory.floating-buffers-per-gate", syntax.parse_int, "8")
    process_memory = _flink_unset("taskmanager.memory.process.size", syntax.parse_memory)
    flink_memory = _flink_unset("taskmanager.memory.flink.size", syntax.parse_memory)
    framework_heap = _flink("taskmanager.memory.framework.heap.size", syntax.parse_memory, "128 mb")
    task_heap = _flink_unset("taskmanager.memory.task.heap.size", syntax.parse_memory)
    framework_off_heap = _flink("taskmanager.memory.framework.off-heap.size", syntax.parse_memory, "128 mb")
    task_off_heap = _flink("taskmanager.memory.task.off-heap.size", syntax.parse_memory, "0")
    managed_memory = _flink_unset(
        "taskmanager.memory.managed.size", syntax.parse_memory, deprecated=("taskmanager.memory.size",)
    )
    managed_fraction = _flink("taskmanager.memory.managed.fraction", syntax.parse_float32, "0.4")
    network_fraction = _flink(
        "taskmanager.memory.network.fraction",
        syntax.parse_float32,
        "0.1",
        deprecated=("taskmanager.network.memory.fraction",),
    )
    network_min = _flink(
        "taskmanager.memory.network.min", syntax.parse_memory, "64 mb", deprecated=("taskmanager.network.memory.min",)
    )
    network_max = _flink_unset(
        "taskmanager.memory.network.max", syntax.parse_memory, deprecated=("taskmanager.network.memory.max",)
    )
    network_buffers = _flink_unset("taskmanager.network.numberOfBuffers", syntax.parse_int)
    metaspace = _flink("taskmanager.memory.jvm-metaspace.size", syntax.parse_memory, "256 mb")
    overhead_fraction = _flink("taskmanager.memory.jvm-overhead.fraction", syntax.parse_float32, "0.1")
    overhead_min = _flink("taskmanager.memory.jvm-overhead.min", syntax.parse_memory, "192 mb")
    overhead_max = _flink("taskmanager.memory.jvm-overhead.max", syntax.parse_memory, "1 gb")
