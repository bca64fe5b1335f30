"""A pin is checked against what the job and its cluster can have, as a pass of the daemon saw them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from testkit.builders.orders import KEY, OrderedJob


@pytest.fixture
def site(ordered: Callable[..., OrderedJob]) -> OrderedJob:
    return ordered(parallelism=2)


@pytest.mark.parametrize(
    ("pins", "options", "figures"),
    [
        pytest.param(
            ("work=12",),
            {},
            "the job has 2 slots and would take 12, 10 more; 8 are free in cluster main",
            id="more slots than are free",
        ),
        pytest.param(
            ("work=999",),
            {"job.autoscaler.vertex.max-parallelism": "2000"},
            "'work' may have 1 to 128 (its max parallelism in Flink), not 999",
            id="more than Flink's max parallelism",
        ),
        pytest.param(
            ("work=5",),
            {"job.autoscaler.vertex.max-parallelism": "4"},
            "'work' may have 1 to 4 (vertex.max-parallelism), not 5",
            id="above the greatest parallelism of all vertices",
        ),
        pytest.param(
            ("work=2",),
            {"job.autoscaler.vertex.bounds": "work=3..6"},
            "'work' may have 3 to 6 (vertex.bounds), not 2",
            id="below its own bounds",
        ),
        pytest.param(
            ("work=8",),
            {"job.autoscaler.quota.memory": "2 gb", "taskmanager.memory.process.size": "1 gb"},
            "the job would take 8 TaskManagers for 8 slots, more than its quota",
            id="more than the quota",
        ),
        pytest.param(
            ("wrok=2",),
            {},
            "no vertex is called 'wrok'; did you mean 'work'? The job has 'Source: source 0', 'work'",
            id="a vertex that does not exist",
        ),
    ],
)
def test_a_pin_that_cannot_be_had_is_refused_with_the_figures(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    pins: tuple[str, ...],
    options: Mapping[str, str],
    figures: str,
) -> None:
    with OrderedJob(tmp_path, capsys, options=options, parallelism=2) as site:
        site.run_recorded(2)

        said = site.order("pin", KEY, *pins)

        assert (said.returncode, said.stdout) == (1, "")
        assert f"main/orders: Not pinned: {figures}" in said.stderr
        assert "; --force pins it all the same)" in said.stderr
        assert "pin" not in site.order("commands", reason=None).stdout


def test_force_pins_what_cannot_be_had(site: OrderedJob) -> None:
    site.run_recorded(2)

    said = site.order("pin", KEY, "work=12", "--force")

    assert (said.returncode, said.stdout) == (0, "main/orders: Pinned work=12, by ann: a test\n")
    site.run()
    assert site.wanted == 12


def test_several_pins_are_counted_together_with_those_before(site: OrderedJob) -> None:
    site.job.vertices[1].slot_sharing_group = "own"
    site.run_recorded(2)
    site.order("pin", KEY, "Source: source 0=6")

    said = site.order("pin", KEY, "work=9")

    assert "the job has 4 slots and would take 15, 11 more; 8 are free" in said.stderr


def test_a_pin_that_takes_no_more_slots_is_taken_on_a_full_cluster(site: OrderedJob) -> None:
    site.flink.taskmanagers = [{"id": "a", "slotsNumber": 2, "freeSlots": 0}]
    site.run_recorded(2)

    assert site.order("pin", KEY, "work=2").returncode == 0


def test_a_pin_for_a_job_that_no_pass_has_seen_is_taken_and_says_that_it_was_not_checked(site: OrderedJob) -> None:
    said = site.order("pin", KEY, "wrok=999", "--new")

    assert said.returncode == 0
    assert said.stdout == (
        "main/orders: Pinned wrok=999, by ann: a test (not checked yet: no pass over the job is recorded)\n"
    )


def test_a_vertex_of_flink_sql_is_pinned_by_its_name(site: OrderedJob) -> None:
    site.job.vertices[1].name = "Calc[2] -> Sink: out[3]"
    site.run_recorded(2)

    said = site.order("pin", KEY, "Calc[2] -> Sink: out[3]=3")

    assert (said.returncode, said.stderr) == (0, "")
    site.run()
    assert site.wanted == 3
