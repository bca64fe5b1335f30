"""How jobs are: phases, reasons, rescales and what leaves them alone, as series."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.model.decision import Hold, PassPhase
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.orders import AuditStamp
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import (
    NO_SUPERVISION,
    RescaleRecord,
    Stage,
    Supervision,
    SupervisionPhase,
)
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.rescale.suspension import Suspension
from flink_autoscaler.standalone.observability.job_series import CODE_LIMIT, MAX_CODES, JobMetricsCollector

JOB = {"cluster": "c", "job_key": "c/orders"}
KEYS = ("c/orders", "c/more")
HOLD = Hold.because("NO_CHANGE", "nothing to do")
STARTED = 1_000_000
"""When the daemon started, epoch milliseconds."""


class Site:
    """The series of a daemon, and a clock."""

    def __init__(self) -> None:
        self.now = STARTED / 1000
        self.series = JobMetricsCollector(clock=lambda: self.now)
        self.registry = CollectorRegistry()
        self.registry.register(self.series)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"flink_autoscaler_job_{name}", {**JOB, **labels})

    def put(
        self,
        supervision: Supervision = NO_SUPERVISION,
        *,
        hold: Hold = HOLD,
        phase: PassPhase = PassPhase.EXECUTED,
    ) -> None:
        outcome = PassOutcome("c/orders", phase, hold, JobState(supervision=supervision))
        self.series.record("c", JobPassReport("c/orders", outcome))


@pytest.fixture
def site() -> Site:
    return Site()


def a_record(stage: Stage, *, decided_ms: int = STARTED, settled_ms: int | None = None) -> RescaleRecord:
    return RescaleRecord(decided_ms, decided_ms, {}, {}, stage=stage, settled_ms=settled_ms)


def test_phase_of_the_last_pass_is_the_only_one_shown(site: Site) -> None:
    site.put(phase=PassPhase.NOT_RUNNING)

    site.put(phase=PassPhase.EXECUTED)

    assert site.value("pass_phase", phase="executed") == 1
    assert site.value("pass_phase", phase="not_running") is None


def test_reasons_of_the_last_decision_are_shown_once_each(site: Site) -> None:
    site.put(hold=Hold((Reason("SIZED", "a", "1"), Reason("SIZED", "b", "2"), Reason("SCALING_LIMITED", "c"))))

    assert site.value("reason", code="SIZED") == 1
    assert site.value("reason", code="SCALING_LIMITED") == 1


def test_reasons_of_a_plug_in_are_bounded(site: Site) -> None:
    site.put(hold=Hold(tuple(Reason(f"{number:04}" * 50, "x") for number in range(1000))))

    (family,) = [each for each in site.registry.collect() if each.name == "flink_autoscaler_job_reason"]
    assert len(family.samples) == MAX_CODES
    assert max(len(sample.labels["code"]) for sample in family.samples) == CODE_LIMIT


def test_phase_after_a_rescale_is_shown(site: Site) -> None:
    site.put(Supervision(phase=SupervisionPhase.PAUSED))

    assert site.value("rescale_phase", phase="paused") == 1
    assert site.value("rescale_phase", phase="stable") is None


def test_what_leaves_a_job_alone_is_shown(site: Site) -> None:
    alone = Suspension("dry run", AuditStamp("ann", "a test", 1), "switched off")
    outcome = PassOutcome("c/orders", PassPhase.EXECUTED, HOLD)

    site.series.record("c", JobPassReport("c/orders", outcome, suspensions=(alone,)))

    assert site.value("scaling_suspended", what="dry run") == 1


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        pytest.param(Stage.REQUESTED, 30, id="requested"),
        pytest.param(Stage.PENDING, 30, id="pending"),
        pytest.param(Stage.REACHED, 0, id="reached: none is under way"),
    ],
)
def test_rescale_under_way_grows_old(site: Site, stage: Stage, expected: float) -> None:
    site.put(Supervision(current=a_record(stage)))

    site.now += 30

    assert site.value("rescale_under_way_seconds") == expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        pytest.param(Reason("SCALING_LIMITED", "x"), 1, id="a policy says so"),
        pytest.param(Reason("AT_TARGET", "x", figures=(("wanted", 2), ("aligned", 1))), 1, id="wants more"),
        pytest.param(Reason("AT_TARGET", "x", figures=(("wanted", 2), ("aligned", 2))), 0, id="has what it wants"),
        pytest.param(Reason("NO_CHANGE", "x"), 0, id="nothing of the kind"),
    ],
)
def test_job_at_its_bounds_is_shown(site: Site, reason: Reason, expected: float) -> None:
    site.put(hold=Hold((reason,)))

    assert site.value("at_bounds") == expected


def test_rescales_are_counted_once_when_they_end(site: Site) -> None:
    site.put()
    site.put(Supervision(current=a_record(Stage.PENDING)))
    settled = a_record(Stage.REFUSED, settled_ms=STARTED + 5)
    site.put(Supervision(current=settled))
    site.put(Supervision(current=settled))
    site.put(Supervision(current=a_record(Stage.REACHED, settled_ms=STARTED + 9), past=(settled,)))

    counted = {stage.value: site.value("rescales_total", stage=stage.value) for stage in Stage if stage.is_final}
    assert counted == {"reached": 1, "partially reached": 0, "refused": 1, "superseded": 0}


def test_rollbacks_are_counted_and_those_that_leave_the_day_do_not_matter(site: Site) -> None:
    site.put(Supervision(rollbacks_ms=(STARTED + 1,)))
    site.put(Supervision(rollbacks_ms=(STARTED + 1, STARTED + 2)))
    site.put(Supervision(rollbacks_ms=(STARTED + 2,)))
    site.put(Supervision())

    assert site.value("rollbacks_total") == 2


def test_what_happened_before_the_start_is_not_counted(site: Site) -> None:
    before = a_record(Stage.REACHED, settled_ms=STARTED - 5)

    site.put(Supervision(past=(before,), rollbacks_ms=(STARTED - 5,)))

    assert site.value("rescales_total", stage="reached") == 0
    assert site.value("rollbacks_total") == 0


def test_nothing_is_shown_of_a_forgotten_job(site: Site) -> None:
    site.put()

    site.series.forget("c", "c/orders")

    samples = [sample for family in site.registry.collect() for sample in family.samples]
    assert [sample.name for sample in samples] == ["flink_autoscaler_jobs_skipped"]


def test_jobs_beyond_the_limit_are_counted_instead_of_shown_until_one_is_gone() -> None:
    series, registry = JobMetricsCollector(max_jobs=1), CollectorRegistry()
    registry.register(series)

    def shown() -> list[float | None]:
        labels = [{**JOB, "job_key": key} for key in KEYS]
        return [registry.get_sample_value("flink_autoscaler_job_balanced_total", each) for each in labels]

    for key in KEYS:
        series.record("c", JobPassReport(key, PassOutcome(key, PassPhase.EXECUTED, HOLD)))
    before, left_out = shown(), registry.get_sample_value("flink_autoscaler_jobs_skipped")
    series.forget("c", KEYS[0])

    assert (before, left_out, shown()) == ([1, None], 1, [None, 1])
