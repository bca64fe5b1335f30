import pytest

from flink_autoscaler.core.decide.memory_tuning import InvalidMemoryError, MemoryLayout, memory_layout
from flink_autoscaler.core.options.flink import FlinkOptions

MIB = 1 << 20
PREFIX = "taskmanager.memory."


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
