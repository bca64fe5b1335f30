from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.ports.task_managers import SupplyRules
from flink_autoscaler.realizers.task_managers.providers import CommandProvider, HttpProvider
from flink_autoscaler.standalone.daemon.providers import TaskManagerSupplyRegistry, supply_rules
from flink_autoscaler.standalone.settings.schema.clusters import ProviderSettings

START = ("/opt/flink/bin/taskmanager.sh", "start-foreground", "-Dtaskmanager.resource-id={id}")


@pytest.fixture
def loop() -> Iterator[EventLoopThread]:
    loop = EventLoopThread()
    yield loop
    loop.close()


@pytest.fixture
def supplies(loop: EventLoopThread) -> Iterator[TaskManagerSupplyRegistry]:
    supplies = TaskManagerSupplyRegistry(loop)
    yield supplies
    supplies.close()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({"type": "command", "command": ("scale", "{n}")}, CommandProvider, id="command"),
        pytest.param({"type": "http", "url": ("http://127.0.0.1:9/tm",)}, HttpProvider, id="http"),
        pytest.param({"type": "compose", "service": "taskmanager"}, CommandProvider, id="compose"),
    ],
)
def test_every_type_has_its_provider(
    supplies: TaskManagerSupplyRegistry, settings: dict[str, object], expected: type
) -> None:
    supplies.configure("c", ProviderSettings.model_validate(settings))

    supply = supplies("c")

    assert supply is not None
    assert type(supply.provider) is expected
    assert supplies("c") is supply


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param({"type": "command"}, r"one of them with \{n\}", id="no count"),
        pytest.param({"type": "http"}, r"provider\.url is not set", id="no URL"),
        pytest.param({"type": "compose"}, r"provider\.service is not set", id="no service"),
        pytest.param(
            {"type": "compose", "service": "tm", "min-taskmanagers": "3", "max-taskmanagers": "2"},
            "min-taskmanagers is 3, more than max-taskmanagers, which is 2",
            id="limits in the wrong order",
        ),
    ],
)
def test_what_is_missing_is_named(
    supplies: TaskManagerSupplyRegistry, settings: dict[str, object], problem: str
) -> None:
    supplies.configure("c", ProviderSettings.model_validate(settings))

    with pytest.raises(ConfigError, match=f"cluster 'c': .*{problem}"):
        supplies("c")


def test_nobody_is_the_default(supplies: TaskManagerSupplyRegistry) -> None:
    supplies.configure("c", ProviderSettings())

    assert supplies("c") is None
    assert supplies("unheard-of") is None


def test_a_provider_is_built_anew_only_when_its_settings_change(supplies: TaskManagerSupplyRegistry) -> None:
    before = ProviderSettings(type="command", command=("scale", "{n}"))
    supplies.configure("c", before)
    first = supplies("c")

    supplies.configure("c", before.model_copy())
    same = supplies("c")
    supplies.configure("c", before.model_copy(update={"max_taskmanagers": 3}))
    other = supplies("c")

    assert same is first
    assert other is not None
    assert other is not first
    assert other.provider.describe().maximum == 3


def test_settings_are_read_as_they_are_written() -> None:
    settings = ProviderSettings.model_validate(
        {
            "type": "COMMAND",
            "command": "tm;{n}",
            "slots-per-taskmanager": "4",
            "ready-timeout": "5 min",
            "slot-warmup": "3 s",
            "headroom-taskmanagers": "1",
            "other-taskmanagers": "2",
            "idle-timeout": "0",
            "checkpoint-max-intervals": "5",
        }
    )

    assert (settings.type, settings.command, settings.slots_per_taskmanager) == ("command", ("tm", "{n}"), 4)
    assert supply_rules(settings) == SupplyRules(
        spare=1, others=2, ready_timeout=300.0, settle=3.0, checkpoints=5, idle=0.0
    )


@pytest.mark.parametrize("settings", [{"min-taskmanagers": "-1"}, {"slots-per-taskmanager": "0"}, {"urll": "x"}])
def test_impossible_settings_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        ProviderSettings.model_validate(settings)
