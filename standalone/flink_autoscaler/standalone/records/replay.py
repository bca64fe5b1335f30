"""Doing recorded passes again: the same inputs have to lead to the same decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.outcome import failed_outcome, without_reading
from flink_autoscaler.core.decide.slot_sharing import defer
from flink_autoscaler.core.errors import ConnectError, StoreError
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.ports.plugins import NO_PLUGINS, Plugins
from flink_autoscaler.standalone.records.codec import PassRecord, outcome_document, samples_document

Json = dict[str, Any]

DEFERRED_CODES: Final = frozenset({"FAIR_SHARE", "SLOTS_COMING"})
"""Codes of the reasons for which a decision is deferred because of what other jobs of the cluster want."""
ADDED_LATER: Final = frozenset({"SLOTS_MISSING", "SlotsMissing"})
"""Reasons and events that are added behind the pass, from what is known about the other jobs of the cluster."""
_WORDING: Final = frozenset({"text", "message", "figures", "key"})
"""Fields of reasons and events that another version may put in other words."""
_MISSING: Final = "nothing"


def replay_pass(record: PassRecord, plugins: Plugins = NO_PLUGINS) -> PassOutcome:
    """Do a recorded pass again.

    Args:
        record: The pass.
        plugins: Those of this process; a pass that used others comes to something else.

    Raises:
        StoreError: The record does not hold what the pass depended on.
    """
    if not record.is_complete:
        raise StoreError("the record was too large to be kept whole: it can be explained, not replayed")
    outcome = without_reading(record.request) or _advance_with_inputs(record, plugins)
    # What the jobs of a cluster decide about its free slots is decided behind the pass.
    reason = next((each for each in record.outcome.decision.reasons if each.code in DEFERRED_CODES), None)
    again = outcome if reason is None else defer(outcome, reason)
    return _with_later_reasons(again, record.outcome)


def _with_later_reasons(again: PassOutcome, recorded: PassOutcome) -> PassOutcome:
    reasons = tuple(each for each in recorded.decision.reasons if each.code in ADDED_LATER)
    events = tuple(each for each in recorded.events if each.reason in ADDED_LATER)
    decision = replace(again.decision, reasons=(*again.decision.reasons, *reasons))
    return replace(again, decision=decision, events=(*again.events, *events))


def _advance_with_inputs(record: PassRecord, plugins: Plugins) -> PassOutcome:
    inputs = record.outcome.inputs
    if inputs is None:
        raise StoreError("the pass ended before the cluster had answered: there is nothing to replay")
    if inputs.reading is not None:
        return advance(record.request, inputs.reading, inputs.cluster, plugins)
    return failed_outcome(record.request, inputs.cluster.error or ConnectError("nothing was read"))


def differences(record: PassRecord, again: PassOutcome) -> Iterator[str]:
    """Yield what a replayed pass came to that the recorded one did not; the wording of texts does not matter."""
    yield from _differences("", _comparable_document(record.outcome), _comparable_document(again))


def _comparable_document(outcome: PassOutcome) -> Json:
    """Return what has to be the same, as a document in which unknown numbers are equal."""
    document = outcome_document(outcome)
    for part in ("topology", "engine", "restart_basis"):
        document.pop(part, None)
    for part in ("reasons", "events"):
        document[part] = [_without_wording(entry) for entry in document.get(part, [])]
    if "shadow" in document:
        reasons = [_without_wording(entry) for entry in document["shadow"]["reasons"]]
        document["shadow"] = {**document["shadow"], "reasons": reasons}
    samples, _ = samples_document(outcome.state.samples, ())
    return {**document, "samples": samples}


def _without_wording(entry: Mapping[str, object]) -> Json:
    return {name: value for name, value in entry.items() if name not in _WORDING}


def _differences(place: str, recorded: object, again: object) -> Iterator[str]:
    if isinstance(recorded, dict) and isinstance(again, dict):
        for name in {**recorded, **again}:
            inner = f"{place}.{name}" if place else str(name)
            yield from _differences(inner, recorded.get(name, _MISSING), again.get(name, _MISSING))
    elif isinstance(recorded, list | tuple) and isinstance(again, list | tuple) and len(recorded) == len(again):
        for index, (left, right) in enumerate(zip(recorded, again, strict=True)):
            yield from _differences(f"{place}[{index}]", left, right)
    elif recorded != again:
        yield f"{place}: recorded {recorded}, now {again}"
