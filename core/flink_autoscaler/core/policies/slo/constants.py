"""What was chosen for the policy ``slo``: docs/development/slo-tested.md has what each is good for."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.model.value import value


@value
class SloConstants:
    """All that was chosen; times are seconds where no other unit is named.

    Attributes:
        smoothing: What a minute adds to gains along edges and to the mix of vertices.
        mix_ahead: Times the rise of a vertex's share over its smoothed one that is expected.
        mix_fading: What a minute leaves of the greatest mix: half of it after six hours.
        saturated: Busy share above which a job without lag metric may consume less than arrives.
        blind_growth: Times more that is assumed to arrive then, by minute.
        blind_limit: Times what is consumed that is assumed at most.

        first_deviation: Of the logarithm of a subtask's rate, before and of the first measurement.
        rough_deviation: The same of a first estimate from little busy time.
        slope_deviation: Of what is lost with parallelism, before anything is known of it.
        rate_drift: Deviation that a minute adds to the rate.
        slope_drift: The same of the slope.
        noise_share: What a measurement adds to the variance of measurements.
        outlier: Standard deviations at which an innovation is cut.
        max_slope: Of what is lost with parallelism.
        measured_busy: Share of busy time from which on a rate is measured.
        first_busy: The same for a first estimate.
        idle_rate: Records/s of a subtask that has never had anything to do; the first estimate takes its place.

        fine: Parallelisms up to which each is a size of its own.
        coarse: Above them the next is this much larger.
        spare: Times what a vertex needs that it gets where its group has the slots anyway.

        buckets: Of five minutes that are kept: a week, and the six hours before it that the last ones are compared to.
        minutes: That are kept one by one.
        hole: Minutes without a sample from which on what was before is history only.
        lag_share: Of the acceptable lag that a burst may use up without costing anything.
        burst: Minutes over which a need is looked for.
        half_life: Buckets after which a squared error counts half: six hours.
        little: Times the mean of a day that is added to loads whose errors are compared.
        sharpness: Exponent of a forecaster's error over that of *last* that gives its weight.
        prior_count: Squared errors that a forecaster without any counts as having.
        prior_error: Times the error of *last* that these are.
        errors: Of the blend that are kept, by bucket: forty hours.
        fresh: Minutes after a jump in which the slope of the last three counts instead of that of an hour.
        jump_spreads: Spreads by which a jump is away from the half hour before.
        jump_share: Share of the load that it is away at least.
        first_jump_share: The same for a job that is younger than twelve minutes.
        jumps: That what became of jumps is a mean of, at most.
        doubt: What the weight of *mean* and *analog* is multiplied with after a jump.
        growth: Times the greatest load of a day that no course exceeds.

        stages: Lengths in buckets: together eight hours.
        settled: Stages in which a scenario may not go down: else each takes for granted that it will soon be known
            which of them is true, and going down is put off for ever.
        scenarios: Forecasters that become one, the weightiest.
        max_sizes: Sizes that are compared.
        min_step: Times the slots that a rescale changes at least while the job is not late.
        overload: Times its shortage that a size costs which the load itself exceeds: what waits has to be drained.
        max_shortage: Share of the load that counts as missing at most: a rescale ends what is more.
        like: Share of the errors that counts: those that were made where the likest loads were expected.
        min_headroom: With less, a backlog counts as drained with so much.
        max_drain: Seconds that draining after a rescale counts at most.
        prior_errors: Errors of the blend that a new job is assumed to have seen.
        prior_deviation: Of these.

        memory: After which what was measured of lateness counts a third: a week.
        prior: That a new job counts as having used ``free`` of its budget in.
        quantile: Of the need that is planned for as long as no more than ``free`` is used.
        free: Share of the budget that may be used before caution grows.
        gain: By how much the logit of the quantile grows with the share used beyond.
        max_quantile: However much is used.
        longest: For which one sample can speak.
        age_fading: What a restart leaves of the weight of those before it, for the age of what is read again.
        load_noise: Of the load within minutes, relative to it, by which that age is told from it.

        ups: Evaluations in a row that have to call for more.
        downs: Evaluations in a row that have to call for less.
        patience: Share of the price of a scale-down that has to be forgone before it.
        rescales_price: Of all rescales that a day may have besides the lateness that they bring, seconds of the usual
            size.
        late_price: Of a second above the acceptable lag: seconds of the usual size times this over ``1 - quantile``, as
            for shortage.
        quiet: After which a quiet job is evaluated again.
        quiet_error: Share by which the load of a quiet job may be off what is expected.
        quiet_load: Share of the capacity below which the load of a quiet job lies.
        quiet_lag: Share of the acceptable lag that may wait.
        calm_lag: The same for a scale-down.
        kept: Share of what was forgone, and of a larger size that was called for, that a minute leaves.
        usual_days: Over which the slots that a job usually holds are a mean.
        usual_load: Times the load of the last day that these count at most.
    """

    smoothing: float = 0.1
    mix_ahead: float = 2.0
    mix_fading: float = 0.998
    saturated: float = 0.95
    blind_growth: float = 1.1
    blind_limit: float = 4.0

    first_deviation: float = 0.05
    rough_deviation: float = 0.4
    slope_deviation: float = 0.07
    rate_drift: float = 0.002
    slope_drift: float = 0.0005
    noise_share: float = 0.05
    outlier: float = 4.0
    max_slope: float = 0.8
    measured_busy: float = 0.1
    first_busy: float = 0.005
    idle_rate: float = 1000.0

    fine: int = 64
    coarse: float = 1.02
    spare: float = 1.1

    buckets: int = 2092
    minutes: int = 60
    hole: int = 15
    lag_share: float = 0.8
    burst: int = 30
    half_life: float = 72.0
    little: float = 0.25
    sharpness: float = 3.0
    prior_count: float = 6.0
    prior_error: float = 1.5
    errors: int = 480
    fresh: int = 15
    jump_spreads: float = 4.5
    jump_share: float = 0.12
    first_jump_share: float = 0.3
    jumps: int = 5
    doubt: float = 0.25
    growth: float = 3.0

    stages: tuple[int, ...] = (1, 1, 2, 2, 3, 3, 6, 6, 12, 12, 12, 12, 12, 12)
    settled: int = 6
    scenarios: int = 3
    max_sizes: int = 40
    min_step: float = 1.25
    overload: float = 1.0
    max_shortage: float = 0.15
    like: float = 0.34
    min_headroom: float = 0.02
    max_drain: float = 1800.0
    prior_errors: int = 24
    prior_deviation: float = 0.06

    memory: float = 604800.0
    prior: float = 302400.0
    quantile: float = 0.98
    free: float = 0.5
    gain: float = 5.0
    max_quantile: float = 0.998
    longest: float = 900.0
    age_fading: float = 0.95
    load_noise: float = 0.03

    ups: int = 2
    downs: int = 3
    patience: float = 0.35
    rescales_price: float = 7200.0
    late_price: float = 0.6
    quiet: float = 300.0
    quiet_error: float = 0.06
    quiet_load: float = 0.97
    quiet_lag: float = 0.2
    calm_lag: float = 0.5
    kept: float = 0.9
    usual_days: float = 5.0
    usual_load: float = 5.0


CONSTANTS: Final = SloConstants()
