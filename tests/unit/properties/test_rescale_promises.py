"""What the model of rescales holds a daemon to after somebody else has changed the requirements."""

from __future__ import annotations

import pytest

from testkit.scenarios.rescale_model import MAP, OPTIONS, SOURCE, Daemon, FactsFate, LossyNetwork, SimulatedCluster
from testkit.scenarios.rescale_model.promises import Promises

THREE = {SOURCE: (1, 3), MAP: (1, 3)}
EDITED = {SOURCE: (1, 1), MAP: (1, 1)}
"""Too little for the load, so that the daemon changes it as soon as it may."""

OVERWRITTEN = "a PUT although somebody else has changed the requirements"


@pytest.fixture
def promises() -> Promises:
    """Of a daemon that has rescaled its job to parallelism 3, and has nothing under way."""
    network = LossyNetwork(SimulatedCluster(load=150.0))
    watched = Promises(Daemon(network, OPTIONS))
    look(watched, 16)
    assert network.cluster.requirements == THREE
    assert watched.daemon.state.supervision.under_way is None
    return watched


def look(promises: Promises, passes: int = 1, facts: FactsFate = FactsFate.FINE) -> None:
    for _ in range(passes):
        promises.daemon.network.tick(10)
        promises.daemon.network.facts_fate = facts
        promises.look()


def fail_over(promises: Promises) -> None:
    promises.daemon.network.cluster.fail_over(forgets=False)
    promises.fail_over()


@pytest.mark.parametrize("fate", [FactsFate.BLIND, FactsFate.LOST])
def test_a_fail_over_excuses_what_the_daemon_was_not_told_of(promises: Promises, fate: FactsFate) -> None:
    promises.edits(EDITED)
    look(promises, 2, fate)
    assert promises.respected == 2
    fail_over(promises)
    look(promises, 3)

    assert promises.edit is None
    assert promises.daemon.network.cluster.requirements == THREE
    assert "RequirementsLost" in promises.daemon.reasons


def test_an_answer_out_of_order_tells_the_daemon_nothing(promises: Promises) -> None:
    promises.edits(EDITED)
    promises.daemon.network.cluster.set_clock(-60_000)
    look(promises)

    assert promises.daemon.told is not None
    assert promises.daemon.told.requirements == EDITED
    assert promises.shown_ms is None
    look(promises, 6)
    assert promises.shown_ms is not None


def test_an_edit_the_daemon_was_told_of_is_owed_respect_after_a_fail_over(promises: Promises) -> None:
    promises.edits(EDITED)
    look(promises)
    fail_over(promises)
    look(promises, 10)

    assert promises.edit == EDITED
    assert promises.daemon.network.cluster.requirements == EDITED


def test_a_daemon_that_forgets_an_edit_is_found_out(promises: Promises) -> None:
    state = promises.daemon.state
    promises.edits(EDITED)
    look(promises)
    promises.daemon.store.save(promises.daemon.context().job_key, state)
    fail_over(promises)

    with pytest.raises(AssertionError, match=OVERWRITTEN):
        look(promises, 10)


def test_respect_lasts_from_the_pass_that_was_told(promises: Promises) -> None:
    promises.edits(EDITED)
    look(promises, 30, FactsFate.LOST)
    look(promises)
    respect = promises.daemon.context().options.edit_respect.ms // 1000
    promises.daemon.network.tick(respect - 60)
    look(promises, 5)
    assert promises.edit == EDITED
    look(promises, 5)
    assert promises.edit is None
    assert promises.daemon.network.cluster.requirements != EDITED
