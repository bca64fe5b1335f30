"""Dashboards, alerts and what starts them are well-formed, documented, and name what there is."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from dashboards import files
from dashboards.expressions import expressions, panels
from dashboards.panels import WIDTH

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.message_catalog import EntryKind, catalog_sections
from flink_autoscaler.core.model.supervision import Stage, SupervisionPhase
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from testkit.servers.prometheus import quickened, require

PROJECT = Path(__file__).parents[3]
GRAFANA, PROMETHEUS = PROJECT / "conf" / "grafana", PROJECT / "conf" / "prometheus"
GUIDE = (PROJECT / "docs" / "guide" / "dashboards.md").read_text()
SERVICES: dict[str, Any] = yaml.safe_load((PROJECT / "docker" / "docker-compose.yml").read_text())["services"]
GROUPS = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
TESTS = yaml.safe_load((PROMETHEUS / "alerts-test.yml").read_text())["tests"]
WORDS = {
    meaning.term for chapter in catalog_sections() if chapter.kind is EntryKind.REASON for meaning in chapter.entries
}
VALUES = {
    "job_pass_phase": {phase.value for phase in PassPhase},
    "job_rescale_phase": {phase.value for phase in SupervisionPhase},
    "job_rescales_total": {stage.value for stage in Stage if stage.is_final},
    "job_reason": WORDS,
    "jobs": {"listed", "unreadable", "stuck"},
}
EVERY_DASHBOARD = pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
SELECTOR = re.compile(r'flink_autoscaler_(\w+)\{[^}]*\b(?:phase|stage|code|kind)=~?"([^"]*)"')


def promtool(*arguments: str) -> str:
    require()
    done = subprocess.run(["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("check", "rules", "alerts.yml"), id="rules"),
        pytest.param(("check", "config", "prometheus.yml"), id="configuration"),
    ],
)
def test_promtool_is_content(arguments: tuple[str, ...]) -> None:
    assert "SUCCESS" in promtool(*arguments)


@pytest.mark.parametrize("interval", sorted({test["interval"] for test in TESTS}))
def test_rules_do_what_their_tests_say(tmp_path: Path, interval: str) -> None:
    """Tests of days are evaluated as seldom as they have values: each minute would cost ten seconds."""
    tests = [test for test in TESTS if test["interval"] == interval]
    rules = {"rule_files": [str(PROMETHEUS / "alerts.yml")], "evaluation_interval": interval, "tests": tests}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(rules))

    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "test.yml"))


def test_alerts_say_how_bad_they_are_what_they_mean_and_what_to_do() -> None:
    for alert, rule in ALERTS.items():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}, alert
        assert rule["annotations"].keys() == {"summary", "description"}, alert
        assert all(rule["annotations"].values()), alert
        assert re.fullmatch(r"\d+[mhd]", rule["for"]), alert


def test_every_alert_has_a_test_of_before_during_and_after() -> None:
    looks = {each["name"]: tuple(bool(test["exp_samples"]) for test in each["promql_expr_test"]) for each in TESTS}

    assert looks == dict.fromkeys(ALERTS, (False, True, False))


def test_every_alert_is_in_the_guide_with_its_severity_and_its_time() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]+) \| [^|]{20,} \| [^|]{20,} \|$", GUIDE, re.MULTILINE)

    assert {name: (severity, time) for name, severity, time in rows} == {
        name: (rule["labels"]["severity"], rule["for"]) for name, rule in ALERTS.items()
    }


def test_commands_and_options_that_alerts_name_exist() -> None:
    reference = PROJECT / "docs" / "reference"
    commands, options = ((reference / f"{name}.md").read_text() for name in ("command-line", "configuration"))
    text = " ".join(rule["annotations"]["description"] for rule in ALERTS.values())

    named = (
        re.findall(r"`flink-autoscaler ([a-z-]+)", text),
        re.findall(r"(?:job\.)?autoscaler\.[a-z-]+\.[a-z.-]*[a-z]", text),
    )
    assert all(named)
    assert [each for each in named[0] if f"## `flink-autoscaler {each}`" not in commands] == []
    assert [each for each in named[1] if each not in options] == []


def test_values_of_labels_that_are_asked_for_are_ones_that_there_are() -> None:
    asked = [rule["expr"] for rule in ALERTS.values()]
    asked += [expression for path in files() for _, expression in expressions(path, {})]

    named = {(name, value) for text in asked for name, values in SELECTOR.findall(text) for value in values.split("|")}

    assert len(named) > 10
    assert {(name, value) for name, value in named if value not in VALUES[name]} == set()


def test_shortened_rules_wait_less_and_say_the_same() -> None:
    rule = {"for": "15m", "expr": "increase(x_total[1h]) > 3 and a_seconds > 1200 or b offset 1d"}

    (quick,) = quickened({"groups": [{"rules": [rule]}]})["groups"][0]["rules"]

    assert quick == {"for": "3750ms", "expr": "increase(x_total[15000ms]) > 3 and a_seconds > 5 or b offset 360000ms"}


def test_dashboards_are_as_they_are_written_down() -> None:
    assert {path: path.read_text() for path in files()} == files()


@EVERY_DASHBOARD
def test_panels_say_what_they_show_and_in_which_unit(path: Path) -> None:
    for panel in panels(path):
        assert len(panel["description"]) > 5
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] == "${datasource}"


@EVERY_DASHBOARD
def test_panels_do_not_overlap(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(path.read_text())["panels"]:
        place = panel["gridPos"]
        columns, lines = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in columns for y in lines}
        assert place["x"] + place["w"] <= WIDTH
        assert not cells & taken
        taken |= cells


@EVERY_DASHBOARD
def test_dashboards_are_chosen_by_data_source_and_cluster(path: Path) -> None:
    dashboard = json.loads(path.read_text())

    names = [each["name"] for each in dashboard["templating"]["list"]]
    assert names[:2] == ["datasource", "cluster"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert not re.search(r"\$(?!datasource|cluster|job|__rate_interval|\{datasource\})", path.read_text())


def test_compose_has_prometheus_and_grafana_in_a_profile_of_their_own() -> None:
    profiles = {name: service.get("profiles", []) for name, service in SERVICES.items()}

    monitoring = {name for name, chosen in profiles.items() if chosen == ["monitoring"]}
    assert monitoring == {"prometheus", "grafana"}
    for name in SERVICES.keys() - monitoring:
        assert not monitoring & SERVICES[name].get("depends_on", {}).keys()


def test_prometheus_of_compose_reads_our_files_and_scrapes_the_daemon() -> None:
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    settings = SettingsLoader(PROJECT / "docker" / "autoscaler.yaml", environment={}).read()

    (scrape,) = config["scrape_configs"]
    assert "../conf/prometheus:/etc/prometheus:ro" in SERVICES["prometheus"]["volumes"]
    assert config["rule_files"] == ["alerts.yml"]
    assert scrape["job_name"] in ALERTS["FlinkAutoscalerDown"]["expr"]
    assert scrape["static_configs"] == [{"targets": [f"autoscaler:{settings.http.port}"]}]
    assert "autoscaler" in SERVICES


def test_grafana_of_compose_finds_prometheus_and_the_dashboards() -> None:
    provisioning = GRAFANA / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "flink-autoscaler.yml").read_text())["providers"]

    url = urlsplit(source["url"])
    assert f"127.0.0.1:{url.port}:9090" in SERVICES[str(url.hostname)]["ports"]
    assert "../conf/grafana/provisioning:/etc/grafana/provisioning:ro" in SERVICES["grafana"]["volumes"]
    for path in files():
        mounted = f"../conf/grafana/{path.name}:{provider['options']['path']}/{path.name}:ro"
        assert mounted in SERVICES["grafana"]["volumes"]


def test_check_tools_and_ci_name_the_package() -> None:
    tools, run = ((PROJECT / ".ci" / name).read_text() for name in ("check-tools", "run"))

    assert re.search(r"command -v promtool.*\black .* prometheus$", tools, re.MULTILINE)
    assert "packages+=(prometheus)" in run
