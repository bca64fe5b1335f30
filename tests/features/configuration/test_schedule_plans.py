"""Plans of the policy ``schedule`` as a YAML list of maps."""

from __future__ import annotations

from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.options.policies import ScheduleOptions
from flink_autoscaler.core.options.schedule_plans import SchedulePlan, parse_plans
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.settings import Settings

TEXT = "days=mon-fri, from=07:00, to=19:00, timezone=Europe/Berlin, min-parallelism=8; days=sat sun, max-parallelism=4"
LISTED = """
    - {days: mon-fri, from: 07:00, to: 19:00, timezone: Europe/Berlin, min_parallelism: 8}
    - days: [sat, sun]
      max-parallelism: 4
"""


def settings_of(directory: Path, text: str, *overrides: str) -> Settings:
    file = directory / "autoscaler.yaml"
    file.write_text(text, encoding="utf-8")
    return SettingsLoader(file, overrides, environment={}).read()


def plans_of(directory: Path, text: str, *overrides: str) -> tuple[SchedulePlan, ...]:
    return ScheduleOptions(settings_of(directory, text, *overrides).job_defaults).schedule_plans


def problems_of(directory: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        settings_of(directory, text)
    return str(caught.value).replace(f"{directory}/", "").splitlines()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"job.autoscaler.schedule.plans: '{TEXT}'", id="text"),
        pytest.param(f"job.autoscaler.schedule.plans:{LISTED}", id="a list"),
        pytest.param("job:\n  autoscaler:\n    schedule:\n      plans:" + LISTED.replace("\n", "\n  "), id="nested"),
        pytest.param(f"kubernetes.operator.job.autoscaler.schedule.plans:{LISTED}", id="under its old key"),
    ],
)
def test_plans_are_the_same_as_text_and_as_a_list(tmp_path: Path, text: str) -> None:
    assert plans_of(tmp_path, text) == parse_plans(TEXT)


def test_list_in_the_guide_is_one(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs/guide/policies.md").read_text(encoding="utf-8")
    [listed] = [block for block in guide.split("```") if block.startswith("yaml\njob.autoscaler.schedule.plans:\n")]

    plans = plans_of(tmp_path, listed.removeprefix("yaml\n"))

    assert [(plan.min_parallelism, plan.max_parallelism, plan.min_rate) for plan in plans] == [
        (8, None, None), (None, 4, None), (None, None, 50_000.0),
    ]  # fmt: skip


def test_plans_of_the_jobs_of_a_cluster_may_be_a_list(tmp_path: Path) -> None:
    text = (
        f"autoscaler.clusters: [{{name: a, url: 'http://a:1', options: {{job.autoscaler.schedule.plans: {TEXT!r}}}}}]"
    )
    listed = (
        "autoscaler.clusters:\n- name: a\n  url: http://a:1\n  options:\n    job.autoscaler.schedule.plans:" + LISTED
    )

    written, found = (
        ScheduleOptions(settings_of(tmp_path, each).clusters[0].options).schedule_plans for each in (text, listed)
    )

    assert written == found == parse_plans(TEXT)


def test_every_field_of_a_plan_may_be_listed(tmp_path: Path) -> None:
    listed = "job.autoscaler.schedule.plans: [{vertex: 'Source: a; b', min_rate: 1.5e3, max_parallelism: 9}]"

    assert plans_of(tmp_path, listed) == (SchedulePlan(vertex="Source: a; b", min_rate=1500.0, max_parallelism=9),)


def test_name_of_a_vertex_may_have_any_characters(tmp_path: Path) -> None:
    listed = "job.autoscaler.schedule.plans: [{vertex: 'orders -> (Map, Filter|x+y)', min_parallelism: 2}]"

    assert plans_of(tmp_path, listed)[0].vertex == "orders -> (Map? Filter|x+y)"


def test_no_plans_may_be_listed(tmp_path: Path) -> None:
    assert plans_of(tmp_path, "job.autoscaler.schedule.plans: []") == ()


def test_what_is_set_later_replaces_the_whole_list(tmp_path: Path) -> None:
    later = "job.autoscaler.schedule.plans=min-parallelism=3"

    assert plans_of(tmp_path, f"job.autoscaler.schedule.plans:{LISTED}", later) == parse_plans("min-parallelism=3")


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        pytest.param("{from: 25:00, min_rate: 2}", "'25:00' is not a time of day from 0:00 to 24:00", id="a time"),
        pytest.param("{days: [mon, someday], min_rate: 2}", "'someday' is not one of mon, tue", id="a day"),
        pytest.param("{timezone: Mars, min_rate: 2}", "the time zone 'Mars' is not known", id="a time zone"),
        pytest.param("{min_parallelism: 0}", "a parallelism of 0 is not possible", id="a parallelism"),
        pytest.param("{until: 18:00, min_rate: 2}", "'until' is not one of period, days", id="no such field"),
        pytest.param("{min_rate: 2, min-rate: 3}", "min-rate is given twice", id="a field under two names"),
        pytest.param("{min_rate: 2, min_rate: 3}", "min-rate is given twice", id="a field twice"),
        pytest.param("{days: mon}", "'days=mon' has none of min-parallelism", id="a plan that says nothing"),
        pytest.param(
            "{min_parallelism: 8, max_parallelism: 4}", "has a least parallelism above", id="it contradicts itself"
        ),
    ],
)
def test_problem_names_the_key_the_line_and_what_is_wrong(tmp_path: Path, plan: str, problem: str) -> None:
    (told,) = problems_of(tmp_path, f"\njob.autoscaler.schedule.plans:\n- {{min_parallelism: 1}}\n- {plan}")

    assert told.startswith("job.autoscaler.schedule.plans = 'min_parallelism=1;")
    assert "(autoscaler.yaml line 2): " in told
    assert problem in told


@pytest.mark.parametrize(
    ("plan", "problem"),
    [("{}", "line 3: a plan is empty"), ("{days: [[mon]]}", "line 3: a list holds either maps or plain values")],
)
def test_what_is_no_plan_is_told_with_its_own_line(tmp_path: Path, plan: str, problem: str) -> None:
    told = problems_of(tmp_path, f"job.autoscaler.schedule.plans:\n- {{min_parallelism: 1}}\n- {plan}")

    assert told == [f"autoscaler.yaml {problem}"]


def test_text_and_list_in_one_file_contradict_each_other(tmp_path: Path) -> None:
    text = "job.autoscaler.schedule.plans: min-rate=1\njob: {autoscaler: {schedule.plans: [{min_rate: 2}]}}"

    assert problems_of(tmp_path, text) == [
        "autoscaler.yaml line 2: job.autoscaler.schedule.plans is already set in line 1"
    ]
