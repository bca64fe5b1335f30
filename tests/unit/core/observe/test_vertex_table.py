import math
import pickle
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId
from flink_autoscaler.core.observe.window import VertexTable
from testkit.builders.core import vertex_id

NAN = math.nan
V, W = vertex_id(1), vertex_id(2)
LOAD, LAG = ScalingMetric.LOAD, ScalingMetric.LAG

Plain = dict[VertexId, dict[ScalingMetric, float]]

numbers = st.floats()
plain = st.dictionaries(
    st.integers(0, 9).map(vertex_id),
    st.dictionaries(st.sampled_from(list(ScalingMetric)), numbers, max_size=6),
    max_size=5,
)


def same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))


@given(vertices=plain)
def test_a_table_says_what_the_maps_say_that_it_was_made_of(vertices: Plain) -> None:
    table: Mapping[VertexId, Mapping[ScalingMetric, float]] = VertexTable.of(vertices)

    assert list(table) == list(vertices)
    for v, metrics in vertices.items():
        assert v in table
        assert list(table[v]) == list(metrics)
        assert all(same(value, metrics[metric]) for metric, value in table[v].items())
        assert all(same(table[v][metric], value) for metric, value in metrics.items())
        assert all((metric in table[v]) == (metric in metrics) for metric in ScalingMetric)
        assert all(table[v].get(metric) is None for metric in ScalingMetric if metric not in metrics)


@given(vertices=plain, others=plain)
def test_tables_are_equal_where_maps_are_but_for_nan_which_is_equal_to_itself(vertices: Plain, others: Plain) -> None:
    def named(given: Plain) -> dict[VertexId, dict[ScalingMetric, float | str]]:
        return {
            v: {metric: "NaN" if math.isnan(value) else value for metric, value in metrics.items()}
            for v, metrics in given.items()
        }

    assert (VertexTable.of(vertices) == VertexTable.of(others)) == (named(vertices) == named(others))
    assert (VertexTable.of(vertices) == others) == (named(vertices) == named(others))
    assert VertexTable.of(vertices) == vertices
    assert vertices == VertexTable.of(vertices)


@given(vertices=plain)
def test_a_table_travels(vertices: Plain) -> None:
    table = VertexTable.of(vertices)

    arrived = pickle.loads(pickle.dumps(table))

    assert arrived == table
    assert arrived.layout is table.layout


def test_samples_that_tell_the_same_share_their_layout() -> None:
    first = VertexTable.of({V: {LOAD: 0.5, LAG: 1.0}, W: {LOAD: 0.25}})
    second = VertexTable.of({V: {LOAD: 0.75, LAG: 2.0}, W: {LOAD: NAN}})
    other = VertexTable.of({V: {LAG: 1.0, LOAD: 0.5}, W: {LOAD: 0.25}})

    assert first.layout is second.layout
    assert first.layout is not other.layout
    assert first == other


def test_a_table_is_nothing_else() -> None:
    table = VertexTable.of({V: {LOAD: 0.5}})

    assert table != 1
    assert table[V] != 1
    assert repr(table) == repr({V: {LOAD: 0.5}})
    assert repr(table[V]) == repr({LOAD: 0.5})
