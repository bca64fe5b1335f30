from __future__ import annotations

from pathlib import Path

import pytest

from flink_autoscaler.core.ports.task_managers import Progress, TaskManagerProvider
from flink_autoscaler.realizers.taskmanagers.providers import CommandProvider, ProviderLimits, compose_provider
from flink_autoscaler.realizers.testing.provider_contract import TaskManagerProviderContract, ended

# Stands in for Docker: records its arguments, keeps the scale, and lists as many containers.
DOCKER = """#!/bin/sh
cd "$(dirname "$0")"
printf '%s\\n' "$*" >> calls
case "$*" in
  *" ps "*) seq -f 'container%g' "$(cat scale)" ;;
  *) for argument; do case "$argument" in *=*) printf '%s' "${argument#*=}" > scale ;; esac; done ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    docker = tmp_path / "docker"
    docker.write_text(DOCKER)
    docker.chmod(0o700)
    (tmp_path / "scale").write_text("0")
    return docker


def provider_for(docker: Path) -> CommandProvider:
    base = (str(docker), "compose", "-f", "flink.yaml")
    return compose_provider("taskmanager", base, limits=ProviderLimits(maximum=4))


class TestComposeProvider(TaskManagerProviderContract):
    @pytest.fixture(autouse=True)
    def _docker(self, docker: Path) -> None:
        self.docker = docker

    def make_provider(self) -> TaskManagerProvider:
        return provider_for(self.docker)

    def running(self) -> int:
        return int((self.docker.parent / "scale").read_text())


def test_the_service_is_scaled_without_touching_what_runs(docker: Path) -> None:
    provider = provider_for(docker)

    ended(provider, provider.set_desired(3))
    info = provider.describe()

    assert (docker.parent / "calls").read_text().splitlines() == [
        "compose -f flink.yaml up --detach --no-recreate --scale taskmanager=3 taskmanager",
        "compose -f flink.yaml ps --quiet taskmanager",
    ]
    assert (info.running, info.desired, info.can_pick_victims) == (3, 3, False)


def test_what_docker_says_when_it_fails_is_told(docker: Path) -> None:
    docker.write_text("#!/bin/sh\necho 'no such service: taskmanager' >&2\nexit 1\n")
    provider = provider_for(docker)

    state = ended(provider, provider.set_desired(1))

    assert state.progress is Progress.FAILED
    assert "no such service: taskmanager" in state.reason
