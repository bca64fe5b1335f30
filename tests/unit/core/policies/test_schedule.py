from collections.abc import Mapping, Set
from dataclasses import replace
from datetime import datetime
from typing import ClassVar
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st
from policy_setup import codes, given, observation, vertex

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import JobObservation, Outage, Proposal, ProposalDirection
from flink_autoscaler.core.options.calendar import Period
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.core.options.schedule_plans import SchedulePlan, format_plans, parse_plans
from flink_autoscaler.core.policies.combining import combine
from flink_autoscaler.core.policies.schedule import SchedulePolicy, capped
from flink_autoscaler.core.policies.testing.contract import ScalingPolicyContract
from flink_autoscaler.core.ports.plugins import ScalingPolicy

BERLIN = ZoneInfo("Europe/Berlin")
OFFICE = "days=mon-fri, from=09:00, to=18:00, timezone=Europe/Berlin, min-parallelism=8"


def at(text: str, timezone: ZoneInfo = BERLIN, fold: int = 0) -> float:
    """Return an instant by the clock of a time zone; 2024-01-03 is a Wednesday."""
    return datetime.fromisoformat(text).replace(tzinfo=timezone, fold=fold).timestamp()


def a_job(now: float, parallelism: int = 4) -> JobObservation:
    return observation(
        vertex(parallelism=parallelism, rate_in=1_000.0, busy=0.5),
        vertex("map", parallelism=parallelism, rate_in=2_000.0, busy=0.25),
        now=now,
    )


def proposed(plans: str, obs: JobObservation, *, downtime: Outage | None = None, **options: str) -> Proposal:
    settings = {"schedule.plans": plans, **options}
    return SchedulePolicy().propose(given(obs, settings, downtime=downtime or Outage(0.0, 0.0)))


class TestSchedulePolicy(ScalingPolicyContract):
    needs = ()
    patience = 2
    expected: ClassVar[Set[ProposalDirection]] = frozenset(
        {ProposalDirection.UP, ProposalDirection.DOWN, ProposalDirection.MIXED}
    )

    def make_policy(self) -> ScalingPolicy:
        return SchedulePolicy()

    def config(self) -> Mapping[str, str]:
        return {"job.autoscaler.schedule.plans": "min-parallelism=6; max-parallelism=20"}


class TestSchedulePolicyWithRates(TestSchedulePolicy):
    expected = frozenset({ProposalDirection.UP})

    def config(self) -> Mapping[str, str]:
        return {"job.autoscaler.schedule.plans": "vertex=*1, min-rate=15000"}


@pytest.mark.parametrize(
    ("plan", "instant", "expected"),
    [
        pytest.param(OFFICE, at("2024-01-03T08:59:59"), False, id="before"),
        pytest.param(OFFICE, at("2024-01-03T09:00:00"), True, id="the beginning belongs to it"),
        pytest.param(OFFICE, at("2024-01-03T17:59:59"), True, id="within"),
        pytest.param(OFFICE, at("2024-01-03T18:00:00"), False, id="the end does not"),
        pytest.param(OFFICE, at("2024-01-06T12:00:00"), False, id="on a Saturday"),
        pytest.param(OFFICE, at("2024-07-03T07:00:00", ZoneInfo("UTC")), True, id="in summer time"),
        pytest.param(OFFICE, at("2024-01-03T08:00:00", ZoneInfo("UTC")), True, id="in winter time"),
        pytest.param("min-parallelism=2", at("2024-01-06T00:00:00"), True, id="always"),
        pytest.param("days=sat, min-parallelism=2", at("2024-01-06T23:59:59", ZoneInfo("UTC")), True, id="all day"),
        pytest.param(
            "days=sat, min-parallelism=2", at("2024-01-07T00:00:00", ZoneInfo("UTC")), False, id="and no more"
        ),
        pytest.param(
            "days=fri, from=22:00, to=06:00, min-rate=1",
            at("2024-01-06T05:59:00", ZoneInfo("UTC")),
            True,
            id="until the next morning",
        ),
        pytest.param(
            "days=fri, from=22:00, to=06:00, min-rate=1",
            at("2024-01-05T05:59:00", ZoneInfo("UTC")),
            False,
            id="but not in the morning of that day",
        ),
        pytest.param(
            "period=22:00-6:00 && * * * ? * MON,FRI in Europe/Berlin, min-rate=1",
            at("2024-01-06T05:59:00"),
            True,
            id="written as a period",
        ),
    ],
)
def test_a_plan_holds_at_its_times(plan: str, instant: float, expected: bool) -> None:
    assert parse_plans(plan)[0].holds_at(instant) is expected


NIGHT = parse_plans("from=02:15, to=02:45, timezone=Europe/Berlin, min-parallelism=2")[0]


@pytest.mark.parametrize(
    ("plan", "begin", "end"),
    [
        pytest.param(
            parse_plans("days=sun, timezone=Europe/Berlin, min-parallelism=2")[0],
            at("2024-03-31T00:00:00"), at("2024-04-01T00:00:00"), id="a day of 23 hours",
        ),
        pytest.param(
            parse_plans("days=sun, timezone=Europe/Berlin, min-parallelism=2")[0],
            at("2024-10-27T00:00:00"), at("2024-10-28T00:00:00"), id="a day of 25 hours",
        ),
        pytest.param(
            NIGHT, at("2024-03-31T03:15:00"), at("2024-03-31T03:45:00"), id="an hour that is skipped is the next one"
        ),
        pytest.param(
            NIGHT, at("2024-10-27T02:15:00"), at("2024-10-27T02:45:00", fold=1),
            id="an hour that comes twice: from the first to the second",
        ),
    ],
)  # fmt: skip
def test_a_plan_follows_the_clocks_when_they_change(plan: SchedulePlan, begin: float, end: float) -> None:
    assert [plan.holds_at(instant) for instant in (begin - 1.0, begin, end - 1.0, end)] == [False, True, True, False]


@hypothesis_given(
    st.integers(0, 1_439), st.integers(1, 1_440), st.frozensets(st.integers(0, 6), min_size=1),
    st.integers(0, 2_000_000), st.integers(0, 7_200),
)  # fmt: skip
def test_a_plan_holds_whenever_it_will_hold_within_the_lead(
    start: int, end: int, days: frozenset[int], minute: int, lead: int
) -> None:
    plan = SchedulePlan(Period(days, start * 60_000, end * 60_000, BERLIN), min_parallelism=2)
    now = 1_700_000_000.0 + minute * 60.0

    assert plan.holds_at(now, float(lead)) or not plan.holds_at(now + lead)


def test_plans_are_read() -> None:
    text = "days=sat sun, from=7:30, to=24:00, timezone=Asia/Tokyo, vertex=Source: *, max_parallelism=4; min-rate=1e3"

    assert parse_plans(text) == (
        SchedulePlan(
            Period(frozenset({5, 6}), 27_000_000, zone=ZoneInfo("Asia/Tokyo")), "Source: *", max_parallelism=4
        ),
        SchedulePlan(min_rate=1_000.0),
    )


@pytest.mark.parametrize(
    ("text", "days"),
    [("mon", {0}), ("fri-mon", {4, 5, 6, 0}), ("Monday wed-THU", {0, 2, 3}), ("sun-sun", {6}), ("tue;sat", {1, 5})],
)
def test_days_are_read(text: str, days: set[int]) -> None:
    assert parse_plans(format_plans([{"days": text, "min-parallelism": "2"}]))[0].period.days == days


def test_a_yaml_list_of_maps_becomes_text() -> None:
    document = """
    - {days: mon-fri, from: "09:00", to: "18:00", timezone: Europe/Berlin, min_parallelism: "8"}
    - {days: sat;sun, max-parallelism: "4"}
    """

    text = format_plans(yaml.safe_load(document))

    assert text == (
        "days=mon-fri, from=09:00, to=18:00, timezone=Europe/Berlin, min_parallelism=8;days=sat sun, max-parallelism=4"
    )
    assert parse_plans(text)[0] == parse_plans(OFFICE)[0]


@pytest.mark.parametrize(
    "text",
    [
        "days=mon",
        "min-parallelism=0",
        "min-parallelism=8, max-parallelism=4",
        "min-parallelism=8, min-parallelism=9",
        "days=someday, min-parallelism=2",
        "from=24:00, min-parallelism=2",
        "from=9, min-parallelism=2",
        "from=09:60, min-parallelism=2",
        "to=00:00, min-parallelism=2",
        "timezone=Mars/Olympus, min-parallelism=2",
        "timezone=Europe, min-parallelism=2",
        "timezone=../etc, min-parallelism=2",
        "until=18:00, min-parallelism=2",
        "min-rate=NaN",
        "nonsense",
    ],
)
def test_plans_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ValueParseError, match=r"job.autoscaler.schedule.plans"):
        proposed(text, a_job(0.0))


def test_a_floor_raises_the_job_and_blocks_scale_downs() -> None:
    proposal = proposed(OFFICE, a_job(at("2024-01-03T12:00:00")))

    assert proposal.targets == {"source": 8, "map": 8}
    assert proposal.direction is ProposalDirection.UP
    assert proposal.blocks_down
    assert {"PLAN_HOLDS", "SCALE_UP"} <= codes(proposal)


def test_a_floor_below_the_job_keeps_it() -> None:
    proposal = proposed(OFFICE, a_job(at("2024-01-03T12:00:00"), parallelism=12))

    assert proposal.targets == {"source": 12, "map": 12}
    assert proposal.blocks_down


def test_without_a_plan_it_abstains() -> None:
    proposal = proposed(OFFICE, a_job(at("2024-01-03T20:00:00")))

    assert proposal.targets is None
    assert not proposal.blocks_down
    assert codes(proposal) == {"NO_PLAN"}


def test_bounds_of_a_vertex_go_before_a_floor() -> None:
    obs = observation(vertex(max_parallelism=6), now=at("2024-01-03T12:00:00"))

    assert proposed(OFFICE, obs).targets == {"source": 6}


@pytest.mark.parametrize(
    ("instant", "code"),
    [("2024-01-03T08:58:29", "NO_PLAN"), ("2024-01-03T08:58:30", "PLAN_BEGINS"), ("2024-01-03T09:00:00", "PLAN_HOLDS")],
)
def test_a_floor_holds_earlier_by_the_time_of_a_rescale(instant: str, code: str) -> None:
    outage = Outage(mean=40.0, q90=60.0, delay=30.0)

    assert code in codes(proposed(OFFICE, a_job(at(instant)), downtime=outage))


def test_a_ceiling_does_not_hold_earlier() -> None:
    plan = "from=09:00, timezone=Europe/Berlin, max-parallelism=2"
    outage = Outage(mean=40.0, q90=60.0, delay=30.0)

    early = proposed(plan, a_job(at("2024-01-03T08:59:00")), downtime=outage)

    assert early.targets == {"source": 4, "map": 4}
    assert proposed(plan, a_job(at("2024-01-03T09:00:00"))).targets == {"source": 2, "map": 2}


@pytest.mark.parametrize(
    ("plans", "expected", "blocks_down"),
    [
        pytest.param("min-parallelism=6; min-parallelism=8", 8, True, id="the largest floor"),
        pytest.param("max-parallelism=3; max-parallelism=2", 2, False, id="the smallest ceiling"),
        pytest.param("min-parallelism=6; max-parallelism=2", 6, True, id="the floor wins"),
        pytest.param("min-parallelism=2; max-parallelism=3", 3, False, id="a ceiling is not blocked by a floor"),
    ],
)
def test_plans_that_overlap(plans: str, expected: int, blocks_down: bool) -> None:
    proposal = proposed(plans, a_job(0.0))

    assert proposal.targets == {"source": expected, "map": expected}
    assert proposal.blocks_down is blocks_down


def test_a_plan_may_be_about_some_vertices() -> None:
    assert proposed("vertex=so*, min-parallelism=8", a_job(0.0)).targets == {"source": 8, "map": 4}


def test_a_rate_is_a_floor_on_what_a_source_reads() -> None:
    proposal = proposed("min-rate=5600", a_job(0.0))

    assert proposal.targets == {"source": 16, "map": 8}  # 500 and 2,000 records/s per subtask, of which 0.7 are used


def test_a_rate_below_what_arrives_raises_nothing() -> None:
    assert proposed("min-rate=500", a_job(0.0)).direction is ProposalDirection.NONE


def test_a_rate_of_one_source_comes_on_top_of_what_others_read() -> None:
    obs = observation(
        vertex("source 1", rate_in=700.0),
        vertex("source 2", rate_in=700.0),
        vertex("join", rate_in=1_400.0),
        edges={("source 1", "join"): 1.0, ("source 2", "join"): 1.0},
    )

    assert proposed("vertex=source 1, min-rate=2100", obs).targets == {"source 1": 12, "source 2": 4, "join": 8}


def test_a_rate_uses_what_was_known_before_the_job_was_idle() -> None:
    busy = proposed("min-rate=5600", a_job(0.0))
    idle = [replace(each, rate_in=0.0, true_rate=None, busy=0.0) for each in a_job(60.0).vertices.values()]
    edges = {("source", "map"): 2.0}

    later = SchedulePolicy().propose(
        given(observation(*idle, edges=edges, now=60.0), {"schedule.plans": "min-rate=5600"}, state=busy.state)
    )

    assert later.targets == busy.targets


def test_a_rate_for_which_nothing_is_known_blocks_scale_downs() -> None:
    obs = observation(vertex(true_rate=None))

    proposal = proposed("min-rate=5600", obs)

    assert proposal.targets == {"source": 4}
    assert proposal.blocks_down
    assert "METRIC_MISSING" in codes(proposal)


def test_a_vertex_whose_rate_is_not_known_is_not_lowered_to_a_ceiling() -> None:
    obs = observation(vertex(true_rate=None))

    assert proposed("min-rate=5600; max-parallelism=2", obs).targets == {"source": 4}


def test_what_others_propose_keeps_below_a_ceiling_with_the_capped_observation() -> None:
    obs = a_job(0.0)
    settings = given(obs, {"schedule.plans": "vertex=map, max-parallelism=6; vertex=source, max-parallelism=2"})

    limits = {v: each.max_parallelism for v, each in capped(settings).vertices.items()}

    assert limits == {"source": 2, "map": 6}
    assert capped(given(obs)) == obs


def test_a_ceiling_is_not_below_the_least_parallelism() -> None:
    obs = observation(vertex(min_parallelism=3))

    limits = capped(given(obs, {"schedule.plans": "max-parallelism=2"}))

    assert limits.vertices["source"].max_parallelism == 3


def test_a_schedule_is_a_floor_under_what_others_propose() -> None:
    obs = a_job(0.0, parallelism=10)
    others = Proposal("other", {"source": 5, "map": 12}, ProposalDirection.MIXED, {}, 1.0, (Reason("WHY", "because"),))

    current = {vertex_id: vertex.parallelism for vertex_id, vertex in obs.vertices.items()}
    assert combine([others, proposed("min-parallelism=8", obs)], current).targets == {"source": 10, "map": 12}
