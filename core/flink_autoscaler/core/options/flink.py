"""The options of Flink itself that the autoscaler reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.option import Option, OptionSet

T = TypeVar("T")


def _flink(
    key: str, parse: Callable[[str], T], default: str, description: str, deprecated: tuple[str, ...] = ()
) -> Option[T]:
    return Option(key, parse, parse(default), default, description, deprecated_keys=deprecated)


def _flink_unset(
    key: str, parse: Callable[[str], T | None], description: str, deprecated: tuple[str, ...] = ()
) -> Option[T | None]:
    return Option(key, parse, None, "", description, deprecated_keys=deprecated)


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

    parallelism_overrides = _flink(
        "pipeline.jobvertex-parallelism-overrides", syntax.parse_map, "", "Parallelism per vertex set by the user."
    )
    task_slots = _flink("taskmanager.numberOfTaskSlots", syntax.parse_int, "1", "Slots per TaskManager.")
    scheduler = _flink("jobmanager.scheduler", str, "", "Scheduler of the cluster.")
    scheduler_mode = _flink("scheduler-mode", str, "", "REACTIVE when the job takes every slot there is.")
    cooldown = _flink(
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
        _duration_or_none,
        "30 s",
        "Least time between two rescales.",
        ("jobmanager.adaptive-scheduler.scaling-interval.min",),
    )
    min_parallelism_increase = _flink(
        "jobmanager.adaptive-scheduler.min-parallelism-increase",
        _count,
        "1",
        "Subtasks by which a vertex has to grow before Flink 1.18 to 1.20 scale a running job up.",
    )
    forced_rescale = _flink_unset(
        "jobmanager.adaptive-scheduler.scaling-interval.max",
        _readable_duration,
        "Time after which Flink 1.19 and 1.20 do a rescale that is smaller than that; unset: never.",
    )
    executing_stabilization = _flink(
        "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout",
        _duration_or_none,
        "60 s",
        "Time for which a running job waits for more slots before it is rescaled to those that are there.",
    )
    submission_stabilization = _flink(
        "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout",
        _duration_or_none,
        "10 s",
        "The same for a job that is about to start.",
        ("jobmanager.adaptive-scheduler.resource-stabilization-timeout",),
    )
    resource_wait = _flink(
        "jobmanager.adaptive-scheduler.submission.resource-wait-timeout",
        _duration_or_none,
        "5 min",
        "Time after which a job that cannot start for want of slots fails; negative waits for ever.",
        ("jobmanager.adaptive-scheduler.resource-wait-timeout",),
    )
    trigger_delay = _flink_unset(
        "jobmanager.adaptive-scheduler.rescale-trigger.max-delay",
        _duration_or_none,
        "Longest time for which a rescale waits for a checkpoint.",
    )
    trigger_failures = _flink(
        "jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures",
        syntax.parse_int,
        "2",
        "Failed checkpoints after which a rescale does not wait for another one.",
    )
    checkpoint_interval = _flink_unset(
        "execution.checkpointing.interval", _duration_or_none, "Time between checkpoints."
    )
    segment_size = _flink("taskmanager.memory.segment-size", syntax.parse_memory, "32 kb", "Size of a network buffer.")
    buffers_per_channel = _flink(
        "taskmanager.network.memory.buffers-per-channel", syntax.parse_int, "2", "Exclusive buffers per channel."
    )
    floating_buffers = _flink(
        "taskmanager.network.memory.floating-buffers-per-gate", syntax.parse_int, "8", "Shared buffers per gate."
    )
    process_memory = _flink_unset("taskmanager.memory.process.size", syntax.parse_memory, "Memory of the process.")
    flink_memory = _flink_unset("taskmanager.memory.flink.size", syntax.parse_memory, "Memory without JVM parts.")
    framework_heap = _flink("taskmanager.memory.framework.heap.size", syntax.parse_memory, "128 mb", "Framework heap.")
    task_heap = _flink_unset("taskmanager.memory.task.heap.size", syntax.parse_memory, "Task heap.")
    framework_off_heap = _flink(
        "taskmanager.memory.framework.off-heap.size", syntax.parse_memory, "128 mb", "Framework off-heap memory."
    )
    task_off_heap = _flink("taskmanager.memory.task.off-heap.size", syntax.parse_memory, "0", "Task off-heap memory.")
    managed_memory = _flink_unset(
        "taskmanager.memory.managed.size", syntax.parse_memory, "Managed memory.", ("taskmanager.memory.size",)
    )
    managed_fraction = _flink("taskmanager.memory.managed.fraction", syntax.parse_float32, "0.4", "Managed share.")
    network_fraction = _flink(
        "taskmanager.memory.network.fraction",
        syntax.parse_float32,
        "0.1",
        "Network share.",
        ("taskmanager.network.memory.fraction",),
    )
    network_min = _flink(
        "taskmanager.memory.network.min",
        syntax.parse_memory,
        "64 mb",
        "Least network memory.",
        ("taskmanager.network.memory.min",),
    )
    network_max = _flink_unset(
        "taskmanager.memory.network.max",
        syntax.parse_memory,
        "Greatest network memory.",
        ("taskmanager.network.memory.max",),
    )
    network_buffers = _flink_unset(
        "taskmanager.network.numberOfBuffers", syntax.parse_int, "Number of network buffers (old)."
    )
    metaspace = _flink("taskmanager.memory.jvm-metaspace.size", syntax.parse_memory, "256 mb", "JVM metaspace.")
    overhead_fraction = _flink(
        "taskmanager.memory.jvm-overhead.fraction", syntax.parse_float32, "0.1", "JVM overhead share."
    )
    overhead_min = _flink("taskmanager.memory.jvm-overhead.min", syntax.parse_memory, "192 mb", "Least JVM overhead.")
    overhead_max = _flink("taskmanager.memory.jvm-overhead.max", syntax.parse_memory, "1 gb", "Greatest JVM overhead.")
