from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import JobObservation, Outage, Proposal, ProposalDirection
from flink_autoscaler.core.options.calendar import Period
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.core.options.schedule_plans import SchedulePlan, format_plans, parse_plans
from flink_autoscaler.core.policies.policy_runner import plan_of, within_schedule
from flink_autoscaler.core.policies.schedule import ScheduleBounds, schedule_bounds
from testkit.builders.policies import given, observation, vertex

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


def bounds(
    plans: str, obs: JobObservation, *, downtime: Outage | None = None, state: Mapping[str, Any] | None = None
) -> ScheduleBounds:
    return schedule_bounds(given(obs, {"schedule.plans": plans}, downtime=downtime or Outage(0.0, 0.0), state=state))


def sizes(plans: str, obs: JobObservation, *, downtime: Outage | None = None, **wanted: int) -> dict[str, int]:
    """Return what becomes of what a policy wants; of a vertex that it does not name, of what that has."""
    within, current = bounds(plans, obs, downtime=downtime), {v: each.parallelism for v, each in obs.vertices.items()}
    proposal = Proposal("any", wanted, ProposalDirection.NONE, {}, 1.0, (Reason("WHY", "because"),))
    return dict(within_schedule(plan_of(proposal, current), within, obs).targets)


def codes(plans: ScheduleBounds) -> set[str]:
    return {reason.code for reason in plans.reasons}


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
    assert parse_plans(format_plans([[("days", text), ("min-parallelism", "2")]]))[0].period.days == days


def test_a_yaml_list_of_maps_becomes_text() -> None:
    document = """
    - {days: mon-fri, from: "09:00", to: "18:00", timezone: Europe/Berlin, min_parallelism: "8"}
    - {days: sat;sun, max-parallelism: "4"}
    """

    text = format_plans(plan.items() for plan in yaml.safe_load(document))

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
        bounds(text, a_job(0.0))


def test_a_floor_raises_the_job() -> None:
    obs = a_job(at("2024-01-03T12:00:00"))

    assert sizes(OFFICE, obs) == {"source": 8, "map": 8}
    assert sizes(OFFICE, obs, source=12, map=2) == {"source": 12, "map": 8}
    assert codes(bounds(OFFICE, obs)) == {"PLAN_HOLDS"}


def test_a_job_above_a_floor_may_go_down_to_it() -> None:
    obs = a_job(at("2024-01-03T12:00:00"), parallelism=12)

    assert sizes(OFFICE, obs) == {"source": 12, "map": 12}
    assert sizes(OFFICE, obs, source=2, map=10) == {"source": 8, "map": 10}


def test_without_a_plan_nothing_is_bounded() -> None:
    obs = a_job(at("2024-01-03T20:00:00"))

    assert bounds(OFFICE, obs).reasons == ()
    assert sizes(OFFICE, obs, source=1) == {"source": 1, "map": 4}
    assert bounds(OFFICE, obs).applied_to(obs) == obs


def test_bounds_of_a_vertex_go_before_a_floor() -> None:
    obs = observation(vertex(max_parallelism=6), now=at("2024-01-03T12:00:00"))

    assert sizes(OFFICE, obs) == {"source": 6}


@pytest.mark.parametrize(
    ("instant", "code"),
    [
        ("2024-01-03T08:58:29", set()),
        ("2024-01-03T08:58:30", {"PLAN_BEGINS"}),
        ("2024-01-03T09:00:00", {"PLAN_HOLDS"}),
    ],
)
def test_a_floor_holds_earlier_by_the_time_of_a_rescale(instant: str, code: set[str]) -> None:
    outage = Outage(mean=40.0, q90=60.0, delay=30.0)

    assert codes(bounds(OFFICE, a_job(at(instant)), downtime=outage)) == code


def test_a_ceiling_does_not_hold_earlier() -> None:
    plan = "from=09:00, timezone=Europe/Berlin, max-parallelism=2"
    outage = Outage(mean=40.0, q90=60.0, delay=30.0)

    assert sizes(plan, a_job(at("2024-01-03T08:59:00")), downtime=outage) == {"source": 4, "map": 4}
    assert sizes(plan, a_job(at("2024-01-03T09:00:00"))) == {"source": 2, "map": 2}


def test_a_plan_may_be_about_some_vertices() -> None:
    assert sizes("vertex=so*, min-parallelism=8", a_job(0.0)) == {"source": 8, "map": 4}


def test_a_rate_is_a_floor_on_what_a_source_reads() -> None:
    # 500 and 2,000 records/s per subtask, of which 0.7 are used
    assert sizes("min-rate=5600", a_job(0.0)) == {"source": 16, "map": 8}


def test_a_rate_below_what_arrives_raises_nothing() -> None:
    assert sizes("min-rate=500", a_job(0.0)) == {"source": 4, "map": 4}


def test_a_rate_of_one_source_comes_on_top_of_what_others_read() -> None:
    obs = observation(
        vertex("source 1", rate_in=700.0),
        vertex("source 2", rate_in=700.0),
        vertex("join", rate_in=1_400.0),
        edges={("source 1", "join"): 1.0, ("source 2", "join"): 1.0},
    )

    assert sizes("vertex=source 1, min-rate=2100", obs) == {"source 1": 12, "source 2": 4, "join": 8}


def test_a_rate_uses_what_was_known_before_the_job_was_idle() -> None:
    busy = bounds("min-rate=5600", a_job(0.0))
    idle = [replace(each, rate_in=0.0, true_rate=None, busy=0.0) for each in a_job(60.0).vertices.values()]
    obs = observation(*idle, edges={("source", "map"): 2.0}, now=60.0)

    assert bounds("min-rate=5600", obs, state=busy.state).floors == busy.floors == {"source": 16, "map": 8}


def test_a_vertex_for_whose_rate_nothing_is_known_keeps_what_it_has() -> None:
    obs = observation(vertex(true_rate=None))

    assert sizes("min-rate=5600", obs, source=2) == {"source": 4}
    assert sizes("min-rate=5600; max-parallelism=2", obs) == {"source": 4}
    assert "METRIC_MISSING" in codes(bounds("min-rate=5600", obs))


def test_no_vertex_is_seen_below_its_least_parallelism() -> None:
    obs = a_job(0.0)

    assert bounds("min-parallelism=8", obs).applied_to(obs).vertices["map"].min_parallelism == 4


def test_a_ceiling_is_not_below_the_least_parallelism() -> None:
    obs = observation(vertex(min_parallelism=3))

    assert bounds("max-parallelism=2", obs).applied_to(obs).vertices["source"].max_parallelism == 3
