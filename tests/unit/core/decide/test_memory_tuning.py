import dataclasses
import math

import pytest

from flink_autoscaler.core.decide.memory_tuning import (
    InvalidMemoryError,
    MemoryLayout,
    TuningInput,
    memory_layout,
    network_memory,
    recommendation_event,
    tune_memory,
)
from flink_autoscaler.core.model.metrics import EvaluatedMetric, ScalingMetric
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.core.options.flink import FlinkOptions
from testkit.builders.core import a_plan, a_topology, a_vertex, options_with

MIB, GIB = 1 << 20, 1 << 30


HASH = ShipStrategy.HASH


PREFIX = "taskmanager.memory."


@pytest.mark.parametrize(
    ("upstream", "downstream", "strategy", "segments"),
    [
        pytest.param(12, 30, ShipStrategy.RESCALE, 14 + 10, id="rescale: a share of the peers"),
        pytest.param(12, 30, HASH, 68 + 32, id="hash: every peer"),
        pytest.param(12, 12, ShipStrategy.FORWARD, 10 + 10, id="forward: one peer"),
        pytest.param(12, 5, ShipStrategy.FORWARD, 10 + 14, id="forward between different parallelisms"),
        pytest.param(30, 12, ShipStrategy.BROADCAST, 32 + 68, id="broadcast: every peer"),
    ],
)
def test_network_memory_counts_the_channels_of_both_ends(
    upstream: int, downstream: int, strategy: ShipStrategy, segments: int
) -> None:
    topology = a_topology(a_vertex(1, parallelism=upstream), a_vertex(2, parallelism=downstream, inputs={1: strategy}))
    two_slots = FlinkOptions({"taskmanager.memory.segment-size": "1 kb", "taskmanager.numberOfTaskSlots": "2"})

    assert network_memory(topology, {}, two_slots) == segments * 1024 * 2


TOPOLOGY = a_topology(a_vertex(1, parallelism=8), a_vertex(2, parallelism=12, inputs={1: HASH}))


USED = {
    ScalingMetric.NUM_TASK_SLOTS_USED: EvaluatedMetric(12.0, math.nan),
    ScalingMetric.HEAP_MEMORY_USED: EvaluatedMetric(math.nan, 600.0 * MIB),
    ScalingMetric.METASPACE_MEMORY_USED: EvaluatedMetric(math.nan, 150.0 * MIB),
    ScalingMetric.MANAGED_MEMORY_USED: EvaluatedMetric(math.nan, 1.0),
}


FLINK = {"taskmanager.memory.process.size": "4g", "taskmanager.numberOfTaskSlots": "2"}


def given(options: dict[str, str] | None = None, managed_used: float = 1.0) -> TuningInput:
    return TuningInput(
        topology=TOPOLOGY,
        summaries=a_plan({1: (8, 4), 2: (12, 6)}),
        globals_={**USED, ScalingMetric.MANAGED_MEMORY_USED: EvaluatedMetric(math.nan, managed_used)},
        options=options_with({"memory.tuning.enabled": "true", **(options or {})}),
        flink_options=FlinkOptions(FLINK),
        taskmanager_memory=4 * GIB,
    )


def test_tuning_fits_the_memory_to_what_was_used() -> None:
    changes = tune_memory(given())

    assert changes is not None
    assert changes.overrides == {
        "taskmanager.memory.process.size": "3703580943 bytes",
        "taskmanager.memory.framework.heap.size": "0 bytes",
        "taskmanager.memory.managed.fraction": "0.467",
        "taskmanager.memory.network.min": "2304 kb",
        "taskmanager.memory.network.max": "2304 kb",
        "taskmanager.memory.jvm-overhead.fraction": "0.116",
        "taskmanager.memory.jvm-metaspace.size": "180 mb",
    }
    assert set(changes.removals) == {
        "taskmanager.memory.flink.size",
        "taskmanager.memory.task.heap.size",
        "taskmanager.memory.managed.size",
        "taskmanager.memory.size",
    }


@pytest.mark.parametrize(
    ("options", "managed_used", "total", "managed", "overhead"),
    [
        pytest.param(
            {"memory.tuning.scale-down-compensation.enabled": "false"},
            1.0,
            "2948606223 bytes",
            "0.618",
            "0.146",
            id="no compensation for fewer TaskManagers",
        ),
        pytest.param({}, 0.0, "2264766880 bytes", "0.0", "0.19", id="managed memory is not used"),
        pytest.param(
            {"memory.tuning.maximize-managed-memory": "true"}, 1.0, "4 gb", "0.758", "0.101", id="all to managed memory"
        ),
        pytest.param(
            {"memory.tuning.maximize-managed-memory": "true"},
            0.0,
            "2264766880 bytes",
            "0.0",
            "0.19",
            id="nothing to managed memory that is not used",
        ),
    ],
)
def test_tuning_variants(options: dict[str, str], managed_used: float, total: str, managed: str, overhead: str) -> None:
    changes = tune_memory(given(options, managed_used))

    assert changes is not None
    assert changes.overrides[PREFIX + "process.size"] == total
    assert changes.overrides[PREFIX + "managed.fraction"] == managed
    assert changes.overrides[PREFIX + "jvm-overhead.fraction"] == overhead


def test_more_taskmanagers_do_not_shrink_the_heap() -> None:
    growing = a_plan({1: (8, 16), 2: (12, 24)})
    off = {"memory.tuning.scale-down-compensation.enabled": "false"}

    with_compensation = tune_memory(dataclasses.replace(given(), summaries=growing))

    assert with_compensation == tune_memory(dataclasses.replace(given(off), summaries=growing))


@pytest.mark.parametrize("memory", [0, -1])
def test_nothing_is_recommended_without_the_memory_of_a_taskmanager(memory: int) -> None:
    assert tune_memory(dataclasses.replace(given(), taskmanager_memory=memory)) is None


def test_unknown_usage_counts_as_none() -> None:
    unknown = EvaluatedMetric(math.nan, math.nan)

    changes = tune_memory(dataclasses.replace(given(), globals_=dict.fromkeys(USED, unknown)))

    assert changes is not None
    assert changes.overrides["taskmanager.memory.jvm-metaspace.size"] == "0 bytes"


@pytest.mark.parametrize(("enabled", "word"), [("true", "enabled"), ("false", "disabled")])
def test_the_recommendation_says_whether_it_is_applied(enabled: str, word: str) -> None:
    changes = tune_memory(given())
    assert changes is not None

    event = recommendation_event(changes, options_with({"memory.tuning.enabled": enabled}))

    assert (event.reason, event.key) == ("Configuration recommendation", "MemoryTuning")
    assert event.interval is not None
    assert event.interval.seconds == 1800
    assert word in event.message
    assert "\ntaskmanager.memory.jvm-metaspace.size: 180 mb\n" in event.message
    assert f"[{', '.join(changes.removals)}]" in event.message


def layout(options: dict[str, str]) -> MemoryLayout:
    return memory_layout(FlinkOptions({PREFIX + key: value for key, value in options.items()}))


def test_from_the_flink_size() -> None:
    pools = layout({"flink.size": "2g"})

    assert (pools.task_heap, pools.network, pools.managed, pools.overhead) == (
        805306352,
        214748368,
        858993472,
        268435460,
    )
    assert pools.flink == 2 << 30


def test_from_the_pools() -> None:
    pools = layout({"task.heap.size": "512m", "managed.size": "256m"})

    # 128 + 128 + 512 + 0 + 256 MiB, of which network memory is a ninth.
    assert pools.network == pytest.approx(1024 * MIB / 9, rel=1e-6)
    assert pools.flink == 1024 * MIB + pools.network


def test_from_the_pools_within_a_flink_size() -> None:
    pools = layout({"task.heap.size": "512m", "managed.size": "256m", "flink.size": "1152m"})

    assert pools.network == 128 * MIB
    assert pools.flink == 1152 * MIB


def test_a_process_size_around_a_flink_size_leaves_the_overhead() -> None:
    pools = layout({"flink.size": "2g", "process.size": "2560m"})

    assert pools.overhead == 256 * MIB


def test_a_task_heap_leaves_the_rest_to_the_network() -> None:
    pools = layout({"flink.size": "1g", "task.heap.size": "256m", "managed.fraction": "0.25"})

    assert pools.managed == 256 * MIB
    assert pools.network == 256 * MIB


def test_the_number_of_buffers_fixes_the_network_memory() -> None:
    options = FlinkOptions({"taskmanager.memory.flink.size": "2g", "taskmanager.network.numberOfBuffers": "4096"})

    assert memory_layout(options).network == 128 * MIB


def test_the_number_of_buffers_does_not_count_beside_network_options() -> None:
    options = {
        "taskmanager.memory.flink.size": "2g",
        "taskmanager.network.numberOfBuffers": "4096",
        "taskmanager.network.memory.fraction": "0.1",
    }

    assert memory_layout(FlinkOptions(options)).network == 214748368


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="nothing is set"),
        pytest.param({"process.size": "500m"}, id="too small for its parts"),
        pytest.param({"process.size": "100m"}, id="too small for the JVM"),
        pytest.param({"process.size": "2g", "network.min": "2g", "network.max": "1g"}, id="minimum above maximum"),
        pytest.param({"process.size": "2g", "managed.fraction": "1"}, id="managed fraction of 1"),
        pytest.param({"process.size": "2g", "jvm-overhead.fraction": "-0.1"}, id="negative fraction"),
        pytest.param({"flink.size": "1g", "process.size": "1g"}, id="no room for the JVM"),
        pytest.param({"flink.size": "1g", "task.heap.size": "2g"}, id="a heap beyond the Flink size"),
        pytest.param(
            {"task.heap.size": "1g", "managed.size": "1g", "flink.size": "1g"}, id="pools beyond the Flink size"
        ),
    ],
)
def test_options_that_do_not_fit_together_are_invalid(options: dict[str, str]) -> None:
    with pytest.raises(InvalidMemoryError):
        layout(options)
