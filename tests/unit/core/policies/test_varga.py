from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.policy_values import JobObservation, Proposal, ProposalDirection
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import PREFIX, ValueParseError
from flink_autoscaler.core.options.policies import RateLimit, RateUnit, parse_rate_limits
from flink_autoscaler.core.policies.base.quantities import slope_of
from flink_autoscaler.core.policies.testing.contract import ScalingPolicyContract
from flink_autoscaler.core.policies.varga import ScalingHistory, VargaPolicy, advised_parallelism, apply_behavior
from flink_autoscaler.core.ports.plugins import ScalingPolicy
from testkit.builders.policies import codes, given, observation, run, vertex

AT_ONCE = {"varga.scale-down.window": "0 s"}


"""Without it a scale-down waits for an hour."""


def a_job(lag: float | None, slope: float, idle: float, *, rate: float | None = 30_000.0) -> JobObservation:
    """Make a job of parallelism 8 whose two vertices are equally idle, and otherwise busy."""
    source = vertex(parallelism=8, rate_in=rate, busy=1.0 - idle, lag_records=lag, lag_slope=slope)
    return observation(source, vertex("map", parallelism=8, rate_in=rate, busy=1.0 - idle))


def later(obs: JobObservation, seconds: float) -> JobObservation:
    return replace(obs, now=obs.now + seconds, window=(obs.window[0] + seconds, obs.window[1] + seconds))


def stopped(obs: JobObservation) -> JobObservation:
    return replace(obs, status=JobStatus.RESTARTING, all_tasks_running=False)


def proposed(obs: JobObservation, options: Mapping[str, str]) -> Proposal:
    return VargaPolicy().propose(given(obs, options))


def number(proposal: Proposal) -> int | None:
    """Return the parallelism that all vertices get; None for an abstention."""
    numbers = set((proposal.targets or {}).values())
    assert len(numbers) <= 1
    return next(iter(numbers), None)


class TestVargaPolicy(ScalingPolicyContract):
    needs = ("rate_in",)
    patience = 3
    most_rescales = 16  # a saturated job cannot tell by how much it is too small

    def make_policy(self) -> ScalingPolicy:
        return VargaPolicy()

    def config(self) -> Mapping[str, str]:
        return {"job.autoscaler.varga.scale-down.window": "0 s"}


A = a_job(200_000.0, 6_000.0, 0.38)


B = a_job(20_000.0, 6_000.0, 0.38)


C = a_job(20_000.0, 0.0, 0.65)


D = a_job(200_000.0, -9_000.0, 0.02)


E = a_job(200_000.0, 0.0, 0.3)


@pytest.mark.parametrize(
    ("current", "metric", "target", "expected"),
    [
        pytest.param(4, 0.91, 0.7, 6, id="1.3 times the target: ceil(5.2)"),
        pytest.param(4, 0.75, 0.7, 4, id="1.07 times: within the tolerance"),
        pytest.param(10, 0.77, 0.7, 10, id="the limit of the tolerance belongs to it"),
        pytest.param(10, 0.63, 0.7, 10, id="the lower limit as well"),
        pytest.param(10, 0.62, 0.7, 9, id="below it"),
        pytest.param(10, 0.7 * 1.2, 0.7, 12, id="noise of the arithmetic buys nothing"),
        pytest.param(10, 0.0, 0.7, 0, id="nothing to do"),
    ],
)
def test_a_metric_advises_the_number_that_brings_it_to_its_target(
    current: int, metric: float, target: float, expected: int
) -> None:
    assert advised_parallelism(current, metric / target, 0.1) == expected


@hypothesis_given(busy=st.floats(0.0, 1.0), current=st.integers(1, 128), target=st.floats(0.3, 1.0))
def test_what_was_advised_is_not_advised_again(busy: float, current: int, target: float) -> None:
    after = max(1, advised_parallelism(current, busy / target, 0.1))

    assert max(1, advised_parallelism(after, busy * current / after / target, 0.1)) == after


@pytest.mark.parametrize(
    ("options", "busy", "expected"),
    [
        pytest.param({}, 0.91, 6, id="too busy"),
        pytest.param({}, 0.75, 4, id="busy enough"),
        pytest.param({}, 0.35, 4, id="too idle, but not for long enough"),
        pytest.param(AT_ONCE, 0.35, 2, id="too idle"),
        pytest.param({"varga.tolerance": "0.05"}, 0.75, 5, id="less tolerance"),
        pytest.param({"varga.tolerance": "0.4"}, 0.91, 4, id="more tolerance"),
        pytest.param({"varga.utilization-target": "0.9"}, 0.91, 4, id="another target"),
        pytest.param({"varga.scale-up.select": "Disabled"}, 0.91, 4, id="no scale-up at all"),
    ],
)
def test_a_job_is_brought_to_its_utilization(options: Mapping[str, str], busy: float, expected: int) -> None:
    assert number(proposed(observation(vertex(busy=busy, rate_in=1_000.0)), options)) == expected


@pytest.mark.parametrize(
    ("obs", "expected", "code"),
    [
        pytest.param(A, 10, "BEHIND", id="A: the lag grows"),
        pytest.param(B, 8, "NO_CHANGE", id="B: it grows, but is small"),
        pytest.param(C, 4, "SCALE_DOWN", id="C: idle"),
        pytest.param(D, 8, "CATCHING_UP", id="D: draining in time"),
        pytest.param(E, 8, "BEHIND", id="E: a standing backlog within the tolerance"),
        pytest.param(a_job(20e6, 0.0, 0.3), 11, "BEHIND", id="a large standing backlog is worked off"),
        pytest.param(a_job(20e6, -9_000.0, 0.3), 8, "BEHIND", id="draining not quite in time, within the tolerance"),
        pytest.param(a_job(20e6, -9_000.0, 0.02), 12, "BEHIND", id="draining not in time, and busy"),
        pytest.param(a_job(None, 0.0, 0.02), 12, "LAG_UNKNOWN", id="without a lag only utilization counts"),
        pytest.param(a_job(2e6, 90_000.0, 0.3), 24, "BEHIND", id="at most three times as much at once"),
    ],
)
def test_it_has_neither_ratchet_nor_standing_backlog(obs: JobObservation, expected: int, code: str) -> None:
    proposal = proposed(obs, AT_ONCE)

    assert number(proposal) == expected
    assert code in codes(proposal)
    assert proposal.blocks_down is (code == "CATCHING_UP")


def test_a_scale_down_raises_no_vertex() -> None:
    obs = observation(vertex(parallelism=2, busy=0.3), vertex("map", parallelism=8, busy=0.35))

    assert proposed(obs, AT_ONCE).targets == {"source": 2, "map": 4}


def test_a_vertex_that_cannot_grow_asks_for_nothing() -> None:
    obs = observation(vertex(busy=0.5), vertex("map", busy=1.0, max_parallelism=4))

    assert proposed(obs, AT_ONCE).direction is ProposalDirection.NONE


def test_passes_between_two_syncs_repeat_the_last_proposal() -> None:
    busy, idle = observation(vertex(busy=0.91)), observation(vertex(busy=0.7))

    proposals = run(VargaPolicy(), [given(busy), given(later(idle, 10.0)), given(later(idle, 15.0))])

    assert [number(proposal) for proposal in proposals] == [6, 6, 4]
    assert "BETWEEN_SYNCS" in codes(proposals[1])


def test_a_scale_down_waits_until_an_hour_agrees() -> None:
    proposals = run(VargaPolicy(), [given(later(C, turn * 600.0)) for turn in range(8)])

    assert [number(proposal) for proposal in proposals] == [8] * 6 + [4] * 2
    assert "STABILIZED" in codes(proposals[0])


def test_what_is_remembered_of_another_graph_is_forgotten() -> None:
    state = VargaPolicy().propose(given(observation(vertex(busy=0.91)))).state
    other = later(observation(vertex("source 2", busy=0.7)), 1.0)

    assert "BETWEEN_SYNCS" not in codes(VargaPolicy().propose(given(other, state=state)))


def test_what_version_0_2_remembered_goes_on() -> None:
    """An hour of recommendations, between two syncs."""
    track = {"seen_at": A.now - 10.0, "size": 8, "recommendations": [[A.now - 3_000.0, 8]], "changes": []}
    hpa = {
        "vertices": ["map", "source"],
        "tracks": {"job": track},
        "backlog_at": None,
        "synced_at": A.now - 10.0,
        "targets": {"source": 9, "map": 9},
        "blocks_down": True,
    }
    state = {"hpa": hpa, "stopped_at": A.now - 5_000.0, "lags": [[A.now - 10.0, 140_000.0]]}

    proposal = VargaPolicy().propose(given(A, state=state))

    assert (number(proposal), proposal.blocks_down) == (9, True)
    assert proposal.state["hpa"] == {**hpa, "backlog_at": A.now}


def test_a_bottleneck_that_cannot_grow_stops_the_others() -> None:
    full = vertex("map", parallelism=8, busy=1.0, max_parallelism=8)
    obs = observation(vertex(parallelism=8, busy=0.5, rate_in=30_000.0, lag_records=2e6, lag_slope=9_000.0), full)

    proposal = proposed(obs, AT_ONCE)

    assert proposal.direction is ProposalDirection.NONE
    assert "SCALING_LIMITED" in codes(proposal)


def test_it_waits_until_all_tasks_have_run_for_a_minute() -> None:
    growing = [later(a_job(200_000.0 + 6_000.0 * at, 6_000.0, 0.38), at) for at in (0.0, 30.0, 59.0, 60.0)]
    inputs = [stopped(growing[0]), *growing[1:]]

    proposals = run(VargaPolicy(), [given(obs) for obs in inputs])

    assert [number(proposal) for proposal in proposals] == [None, None, None, 10]
    assert "NOT_RUNNING" in codes(proposals[0])
    assert codes(proposals[1]) == {"WARM_UP"}


def test_it_waits_after_a_restart_that_it_did_not_see() -> None:
    assert codes(proposed(replace(A, last_restart_at=A.now - 59.0), {})) == {"WARM_UP"}
    assert number(proposed(replace(A, last_restart_at=A.now - 60.0), {})) == 10


def test_it_waits_while_nothing_is_read() -> None:
    assert codes(proposed(a_job(0.0, 0.0, 1.0, rate=0.0), {})) == {"NO_THROUGHPUT"}


def test_utilization_counts_again_a_window_after_the_backlog() -> None:
    busy = a_job(0.0, 0.0, 0.02)
    inputs = [given(D), *(given(later(busy, at)) for at in (60.0, 840.0, 900.0))]

    proposals = run(VargaPolicy(), inputs)

    assert [number(proposal) for proposal in proposals] == [8, 8, 8, 12]
    assert "SETTLING" in codes(proposals[1])


def test_a_lag_that_grows_may_scale_up_without_busy_time() -> None:
    unknown = replace(A, vertices={v: replace(each, busy=None) for v, each in A.vertices.items()})
    idle = replace(C, vertices={v: replace(each, busy=None) for v, each in C.vertices.items()})

    assert number(proposed(unknown, AT_ONCE)) == 10
    assert proposed(idle, AT_ONCE).targets is None
    assert codes(proposed(idle, AT_ONCE)) == {"METRIC_MISSING"}


def test_the_change_of_the_lag_is_that_of_the_last_minute_where_passes_are_close() -> None:
    inputs = [given(later(a_job(200_000.0 + 6_000.0 * at, 0.0, 0.38), at)) for at in (0.0, 15.0, 30.0, 45.0)]

    proposals = run(VargaPolicy(), inputs)

    assert [number(proposal) for proposal in proposals] == [8, 8, 10, 10]


def test_the_slope_is_the_least_squares_one() -> None:
    samples = ((0.0, 100.0), (30.0, 400.0), (60.0, 700.0))

    assert slope_of(samples, 60.0) == pytest.approx(10.0)
    assert slope_of(samples[:1], 60.0) is None
    assert slope_of((), 60.0) is None


@pytest.mark.parametrize("state", [{"lags": 3}, {"lags": [], "hpa": 3}, {"lags": [["x", 1]]}])
def test_a_state_that_cannot_be_read_is_forgotten(state: Mapping[str, object]) -> None:
    assert VargaPolicy().propose(given(A, state=state)) == VargaPolicy().propose(given(A))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("varga.utilization-target", "0"),
        ("varga.tolerance", "-0.1"),
        ("varga.scale-up.policies", "Percent 0 / 15 s"),
        ("varga.scale-down.select", "Some"),
    ],
)
def test_an_invalid_setting_names_its_key(key: str, value: str) -> None:
    with pytest.raises(ValueParseError, match=f"job.autoscaler.{key}"):
        proposed(A, {key: value})


START = 1_000.0


FORGET = 900.0


KUBERNETES = {"scale-up.policies": "Percent 100 / 15 s, Pods 4 / 15 s", "scale-down.window": "5 min"}


def a_behavior(options: Mapping[str, str]) -> AutoscalerOptions:
    """Make windows and limits from options."""
    settings = {f"{PREFIX}varga.{key}": value for key, value in options.items()}
    return AutoscalerOptions({**settings, f"{PREFIX}metrics.window": f"{FORGET:.0f} s"})


def at_once(limits: str = "Percent 100 / 15 s", select: str = "Max") -> AutoscalerOptions:
    """Make a behaviour without windows, with the same limits in both directions."""
    return a_behavior(
        {
            "scale-down.window": "0 s",
            "scale-up.policies": limits,
            "scale-down.policies": limits,
            "scale-up.select": select,
            "scale-down.select": select,
        }
    )


def steps(desired: int, current: int, behavior: AutoscalerOptions, *, interval: float, count: int) -> list[int]:
    """Return the numbers that follow each other when every one is carried out at once."""
    numbers: list[int] = []
    history = None
    for turn in range(count):
        _, current, history = apply_behavior(desired, current, START + turn * interval, history, behavior)
        numbers.append(current)
    return numbers


def recommended(values: list[int], current: int, options: Mapping[str, str], *, interval: float = 60.0) -> list[int]:
    """Return what becomes of recommendations while the number itself stays what it is."""
    numbers: list[int] = []
    history = None
    for turn, value in enumerate(values):
        _, number, history = apply_behavior(value, current, START + turn * interval, history, a_behavior(options))
        numbers.append(number)
    return numbers


def test_kubernetes_takes_four_steps_from_3_to_40() -> None:
    assert steps(40, 3, a_behavior(KUBERNETES), interval=15.0, count=5) == [7, 14, 28, 40, 40]


def test_the_default_takes_one_step_from_3_to_40() -> None:
    assert steps(40, 3, a_behavior({}), interval=15.0, count=2) == [40, 40]


def test_several_limits_allow_the_largest_change() -> None:
    limits = at_once("Pods 4 / 60 s, Percent 10 / 60 s")

    assert steps(1, 80, limits, interval=60.0, count=2) == [72, 64]


def test_several_limits_allow_the_smallest_change_when_told_so() -> None:
    limits = at_once("Pods 4 / 60 s, Percent 10 / 60 s", "Min")

    assert steps(1, 80, limits, interval=60.0, count=2) == [76, 72]


@pytest.mark.parametrize(
    ("limits", "current", "desired", "expected"),
    [
        pytest.param("Percent 10 / 15 s", 11, 20, 13, id="what may be added is rounded up"),
        pytest.param("Percent 10 / 15 s", 11, 1, 9, id="what may go is rounded up"),
        pytest.param("Percent 90 / 15 s", 10, 1, 1, id="a tenth of ten is left"),
        pytest.param("Percent 300 / 15 s", 10, 1, 1, id="more than everything may go"),
        pytest.param("Pods 3 / 15 s", 10, 20, 13, id="so many more"),
        pytest.param("Pods 3 / 15 s", 10, 1, 7, id="so many less"),
    ],
)
def test_limits_are_whole_numbers(limits: str, current: int, desired: int, expected: int) -> None:
    assert apply_behavior(desired, current, START, None, at_once(limits))[1] == expected


@pytest.mark.parametrize("desired", [1, 20])
def test_disabled_stays(desired: int) -> None:
    assert apply_behavior(desired, 10, START, None, at_once(select="Disabled"))[1] == 10


def test_a_direction_counts_only_its_own_changes_within_the_period() -> None:
    behavior = at_once("Pods 4 / 60 s")
    _, first, history = apply_behavior(20, 10, START, None, behavior)

    _, second, history = apply_behavior(20, 14, START + 30.0, history, behavior)
    _, down, _ = apply_behavior(1, 14, START + 31.0, history, behavior)
    _, third, _ = apply_behavior(20, 14, START + 60.0, history, behavior)

    assert (first, second, down, third) == (14, 14, 10, 18)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        pytest.param(13, 14, id="a part of it"),
        pytest.param(20, 20, id="more than the limit"),
    ],
)
def test_a_change_by_somebody_else_counts(size: int, expected: int) -> None:
    behavior = at_once("Pods 4 / 60 s")
    _, _, history = apply_behavior(10, 10, START, None, behavior)

    assert apply_behavior(30, size, START + 30.0, history, behavior)[1] == expected


def test_the_greatest_recommendation_of_the_window_holds_a_scale_down_back() -> None:
    assert recommended([10, 10, 9, 7, 6, 6, 6], 10, KUBERNETES) == [10, 10, 10, 10, 10, 10, 9]


def test_a_scale_down_waits_for_the_window_after_the_start() -> None:
    assert recommended([4] * 7, 8, KUBERNETES) == [8, 8, 8, 8, 8, 4, 4]


def test_the_least_recommendation_of_the_window_holds_a_scale_up_back() -> None:
    assert recommended([16, 12, 16, 16, 16], 8, {"scale-up.window": "2 min"}) == [8, 8, 12, 16, 16]


def test_windows_shorter_than_the_time_between_two_looks_hold_nothing_back() -> None:
    assert recommended([4, 4], 8, {"scale-down.window": "10 s"}) == [8, 4]


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(START + FORGET + 301.0, id="nobody looked for long"),
        pytest.param(START - 1.0, id="the clock went back"),
    ],
)
def test_what_is_remembered_is_forgotten(later: float) -> None:
    history = ScalingHistory(START, 8, ((START - 290.0, 4),))

    limited = apply_behavior(4, 8, later, history, a_behavior(KUBERNETES))

    assert limited == (8, 8, ScalingHistory(later, 8, ((later, 8), (later, 4))))


def test_only_what_can_still_matter_is_remembered() -> None:
    history = None
    for turn in range(600):
        _, _, history = apply_behavior(20 - turn // 60, 20, START + turn, history, a_behavior(KUBERNETES))

    assert len(history.recommendations if history else ()) <= 7


NUMBERS = st.integers(1, 200)


SECONDS = st.integers(0, 600).map(lambda seconds: f"{seconds} s")


LIMITS = st.lists(
    st.tuples(st.sampled_from(RateUnit), st.integers(1, 300), st.integers(1, 600)), min_size=1, max_size=3
).map(lambda limits: ", ".join(f"{unit} {amount} / {period} s" for unit, amount, period in limits))


SELECTS = st.sampled_from(["Max", "Min", "Disabled"])


BEHAVIORS = st.fixed_dictionaries(
    {
        f"{direction}.{name}": values
        for direction in ("scale-up", "scale-down")
        for name, values in (("window", SECONDS), ("policies", LIMITS), ("select", SELECTS))
    }
).map(a_behavior)


LOOKS = st.lists(st.tuples(st.floats(1.0, 300.0), NUMBERS), min_size=1, max_size=20)


@hypothesis_given(behavior=BEHAVIORS, looks=LOOKS, current=NUMBERS)
def test_a_number_moves_toward_a_recommendation_and_never_beyond(
    behavior: AutoscalerOptions, looks: list[tuple[float, int]], current: int
) -> None:
    now, history = START, None
    for wait, desired in looks:
        now += wait
        stabilized, number, history = apply_behavior(desired, current, now, history, behavior)
        assert min(current, desired) <= number <= max(current, desired)
        assert min(current, stabilized) <= number <= max(current, stabilized)
        current = max(1, number)


@hypothesis_given(behavior=BEHAVIORS, looks=LOOKS, current=NUMBERS)
def test_forgetting_what_cannot_matter_changes_nothing(
    behavior: AutoscalerOptions, looks: list[tuple[float, int]], current: int
) -> None:
    now, history, everything = START, None, [(START + looks[0][0], current)]
    for wait, desired in looks:
        now += wait
        stabilized, _, history = apply_behavior(desired, current, now, history, behavior)
        low = min([desired, *(value for at, value in everything if at > now - behavior.varga_up.window)])
        high = max([desired, *(value for at, value in everything if at > now - behavior.varga_down.window)])
        assert stabilized == min(max(current, low), high)
        everything.append((now, desired))


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        pytest.param("Percent 100 / 15 s", [RateLimit(RateUnit.PERCENT, 100, 15.0)], id="one"),
        pytest.param(
            "percent 100/15s,PODS 4 / 1 min",
            [RateLimit(RateUnit.PERCENT, 100, 15.0), RateLimit(RateUnit.PODS, 4, 60.0)],
            id="two, any case, any blanks",
        ),
    ],
)
def test_rate_limits_are_read(text: str, limits: list[RateLimit]) -> None:
    assert parse_rate_limits(text) == tuple(limits)


@pytest.mark.parametrize(
    "text", ["", "Percent 100", "Percent / 15 s", "Percent -1 / 15 s", "Pods 0 / 15 s", "Pods 4 / 0 s", "Cats 4 / 15 s"]
)
def test_rate_limits_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_rate_limits(text)
