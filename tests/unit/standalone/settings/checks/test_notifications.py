from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings import apprise
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.settings import Settings

HOOK = {"targets.0.name": "audit", "targets.0.url": "https://hooks.example.com/s3cr3t"}
CHAT = {"targets.0.name": "chat", "targets.0.type": "apprise", "targets.0.url": "json://127.0.0.1/s3cr3t"}


def settings(given: dict[str, str]) -> Settings:
    overrides = [f"autoscaler.notifications.{key}={value}" for key, value in given.items()]
    return SettingsLoader(overrides=overrides, environment={}).read()


def problems(given: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        settings(given)
    assert "s3cr3t" not in str(caught.value)
    return str(caught.value)


def test_targets_and_rules_are_lists_whose_numbers_may_have_gaps() -> None:
    second = {"targets.7.name": "other", "targets.7.url": "http://127.0.0.1/x"}
    found = settings({**HOOK, **second, "rules.3.targets": "other", "rules.1.severities": "warning"}).notifications

    assert [target.name for target in found.targets] == ["audit", "other"]
    assert [(rule.targets, rule.severities) for rule in found.rules] == [((), ("warning",)), (("other",), ())]


def test_a_list_of_a_file_and_a_variable_for_one_entry_come_together(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("autoscaler.notifications: {targets: [{name: audit}], rules: [{jobs: [a, b]}]}")
    variable = {"AUTOSCALER__NOTIFICATIONS__TARGETS__0__URL": "https://hooks.example.com/x"}

    found = SettingsLoader(file, environment=variable).read()

    assert found.notifications.targets[0].url == "https://hooks.example.com/x"
    assert found.notifications.rules[0].jobs == ("a", "b")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            {"targets.0.url": "https://x/s3cr3t"}, "targets.0.name is not set (the target is in --set)", id="no name"
        ),
        pytest.param({"targets.0.name": "audit"}, "expected one of url, url-file, url-env-variable", id="no URL"),
        pytest.param({**HOOK, "targets.0.url-file": "/x"}, "expected one of url, url-file", id="two URLs"),
        pytest.param(
            {"targets.0.name": "a", "targets.0.url-env-variable": "NO_SUCH"}, "NO_SUCH is not set", id="no variable"
        ),
        pytest.param({"targets.0.name": "a", "targets.0.url-file": "/no/such"}, "/no/such", id="no file"),
        pytest.param(
            {**HOOK, "targets.0.url": "slack://s3cr3t"}, "expected http:// or https:// and a host", id="scheme"
        ),
        pytest.param({**HOOK, "targets.0.key-file": "/no/such"}, "targets.0.key-file", id="no key"),
        pytest.param({**HOOK, "targets.0.auth.kind": "kerberos"}, "expected none, basic or bearer", id="Kerberos"),
        pytest.param({**HOOK, "targets.0.auth.kind": "bearer"}, "auth.kind bearer needs it", id="no token"),
        pytest.param({**HOOK, "targets.0.tls.ca-file": "/no/such"}, "/no/such", id="no certificate"),
        pytest.param(
            {**HOOK, "targets.1.name": "audit", "targets.1.url": "http://x"},
            "'audit' is used more than once",
            id="same",
        ),
        pytest.param({**CHAT, "targets.0.key-file": "/x"}, "only for webhooks", id="a key for Apprise"),
        pytest.param({**CHAT, "targets.0.headers.X-Y": "s3cr3t"}, "only for webhooks", id="a header for Apprise"),
        pytest.param({**CHAT, "targets.0.url": "nonsense://s3cr3t"}, "not the URL of a service", id="unknown service"),
        pytest.param(
            {**HOOK, "rules.0.targets": "audti"},
            "there is no target 'audti'; known: audit; did you mean 'audit'?",
            id="rule, target",
        ),
        pytest.param(
            {**HOOK, "rules.0.reasons": "RoledBack"},
            "no event has the reason 'RoledBack'; did you mean 'RolledBack'?",
            id="rule, reason",
        ),
        pytest.param(
            {**HOOK, "rules.0.severities": "fatal"}, "expected a list of normal and warning", id="rule, severity"
        ),
        pytest.param({"rules.0.severities": "warning"}, "a rule needs at least one of", id="rules alone"),
        pytest.param(
            {**HOOK, "targets.0.urll": "s3cr3t"}, "did you mean 'autoscaler.notifications.targets.0.url'?", id="key"
        ),
        pytest.param({**HOOK, "rules.x.jobs": "a"}, "unknown key", id="no number"),
        pytest.param({**HOOK, "targets.10000.url": "s3cr3t"}, "is not the number of a target", id="a large number"),
    ],
)
def test_a_mistake_is_told_with_what_is_right(given: dict[str, str], expected: str) -> None:
    assert expected in problems(given)


@pytest.mark.parametrize("reason", ["RolledBack", "rolledback", "AutoScaler Options Validation", "Mine*", "Roll?dBack"])
def test_reasons_are_known_or_patterns(reason: str) -> None:
    assert settings({**HOOK, "rules.0.reasons": reason}).notifications.rules[0].reasons == (reason,)


def test_without_the_library_a_target_of_apprise_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra is not installed: the import is what fails."""
    imported = builtins.__import__

    def without(name: str, *arguments: Any, **more: Any) -> Any:
        if name == "apprise":
            raise ModuleNotFoundError("No module named 'apprise'", name="apprise")
        return imported(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, "apprise", raising=False)
    apprise.load_apprise.cache_clear()

    assert "pip install 'flink-autoscaler[notifications]'" in problems(CHAT)
    assert settings(HOOK).notifications.targets[0].name == "audit"


def test_secrets_without_encryption_are_warned_about(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cr3t")
    given = {
        "targets.0.name": "audit",
        "targets.0.url": "http://hooks.example.com/s3cr3t",
        "targets.0.auth.kind": "bearer",
        "targets.0.auth.token-file": str(token),
    }
    overrides = [f"autoscaler.notifications.{key}={value}" for key, value in given.items()]

    _, configuration = SettingsLoader(overrides=overrides, environment={}).load()

    (warning,) = configuration.warnings

    assert "sent to http://hooks.example.com/****** without encryption" in warning
    assert "s3cr3t" not in warning
