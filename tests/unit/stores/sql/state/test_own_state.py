from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model.metrics import MetricSample, NonBusyTime
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Supervision
from flink_autoscaler.stores.sql.state.own_state import OwnState, own_state, own_state_text

st.register_type_strategy(
    Mapping, lambda kind: st.dictionaries(*map(st.from_type, get_args(kind))) if get_args(kind) else st.just({})
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SUPERVISIONS = st.builds(Supervision, baseline=st.dictionaries(st.text(), FINITE))
SAMPLES = (MetricSample(1, {"a": {}, "b": {}}, {}, frozenset({"b"})), MetricSample(2, {"a": {}}, {}, frozenset()))


def test_a_job_of_which_there_is_nothing_to_keep_has_no_text() -> None:
    assert own_state_text(EMPTY_STATE) is None
    assert own_state(None, SAMPLES) == OwnState(SAMPLES)


@given(SUPERVISIONS)
def test_supervision_comes_back_as_it_was(supervision: Supervision) -> None:
    text = own_state_text(replace(EMPTY_STATE, supervision=supervision))

    assert own_state(text, ()).supervision == supervision


def test_names_of_other_people_are_no_names_of_instants() -> None:
    supervision = Supervision(baseline={"checkpoint_ms": 1e18})
    text = own_state_text(replace(EMPTY_STATE, supervision=supervision))

    assert own_state(text, ()).supervision == supervision


def test_incomplete_vertices_come_back_with_their_samples() -> None:
    bare = tuple(replace(sample, incomplete=frozenset()) for sample in SAMPLES)

    text = own_state_text(replace(EMPTY_STATE, samples=SAMPLES))

    assert own_state(text, bare).samples == SAMPLES


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"incomplete": 1}', '{"supervision": {"phase": "dancing"}}', '{"supervision": []}'],
    ids=["cut off", "a list", "no map", "an unknown phase", "no object"],
)
def test_of_a_damaged_text_everything_counts_as_incomplete(text: str) -> None:
    own = own_state(text, SAMPLES)

    assert [sample.incomplete for sample in own.samples] == [frozenset("ab"), frozenset("a")]
    assert own.supervision == NO_SUPERVISION


WAITED = (
    MetricSample(1, {"a": {}, "b": {}}, {}, waited={"a": NonBusyTime(1000.0, 0.5), "b": NonBusyTime(7.0, 0.0)}),
    MetricSample(2, {"a": {}}, {}),
    MetricSample(3, {"a": {}}, {}, waited={"a": NonBusyTime(61_000.0, 0.5)}),
)
BARE = tuple(replace(sample, waited={}) for sample in WAITED)


def test_waiting_times_come_back_with_their_samples() -> None:
    text = own_state_text(replace(EMPTY_STATE, samples=WAITED))

    assert own_state(text, BARE) == OwnState(WAITED)  # nothing else is touched


def test_samples_of_another_writer_have_no_waiting_times() -> None:
    text = own_state_text(replace(EMPTY_STATE, samples=WAITED))
    foreign = MetricSample(4, {"a": {}}, {})

    assert own_state(text, (*BARE[1:], foreign)).samples == (*WAITED[1:], foreign)
    assert own_state(None, BARE).samples == BARE


@pytest.mark.parametrize(
    "waited",
    [
        "7",
        '{"at_ms": [1], "vertices": {"a": [[1, 2], [1, 2]]}}',
        '{"at_ms": [1], "vertices": {"a": [["x"], [0]]}}',
        '{"at_ms": [1], "vertices": {"a": [[NaN], [0]]}}',
        '{"at_ms": 1}',
    ],
    ids=["a number", "more times than samples", "text", "not a number", "no list"],
)
def test_of_damaged_waiting_times_nothing_is_known(waited: str) -> None:
    assert own_state(f'{{"waited": {waited}}}', BARE) == OwnState(BARE)


def test_fields_of_a_later_version_are_ignored() -> None:
    assert own_state('{"supervision": {"asked": {"a": 2}, "mood": "good"}}', ()).supervision == Supervision(
        asked={"a": 2}
    )
