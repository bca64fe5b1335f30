"""The files in docker/ are well-formed, consistent with each other, and careful."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dockerfile_parse
import jsonschema
import pytest
import yaml

from flink_autoscaler.standalone.settings.loading import SettingsLoader

PROJECT = Path(__file__).parents[3]
COMPOSE_FILE = PROJECT / "docker" / "docker-compose.yml"
DOCKERFILE = PROJECT / "docker" / "Dockerfile"
INSTRUCTIONS = {
    *("ADD", "ARG", "CMD", "COMMENT", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK"),
    *("LABEL", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
}
SECRET = re.compile(r"passw(?!d\b)|secret|token|api.?key", re.IGNORECASE)

COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
EVERY_SERVICE = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def instructions() -> list[tuple[str, str]]:
    parser = dockerfile_parse.DockerfileParser(path=str(DOCKERFILE))
    return [(part["instruction"], part["value"]) for part in parser.structure]


def stages() -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Return what each stage is made from and its instructions, by name; the last one is ``default``."""
    found: dict[str, tuple[str, list[tuple[str, str]]]] = {}
    for instruction, value in instructions():
        if instruction == "FROM":
            base, _, name = value.partition(" AS ")
            current: list[tuple[str, str]] = []
            found[name or "default"] = (base, current)
        elif found:
            current.append((instruction, value))
    return found


def last(name: str, target: str = "default") -> str:
    """The value that holds in an image: of the last such instruction in its stage, or in those it is made from."""
    base, own = stages()[target]
    values = [value for instruction, value in own if instruction == name]
    return values[-1] if values else last(name, base)


def every(name: str, target: str) -> str:
    """All values of an instruction in an image, as one text."""
    base, own = stages()[target]
    above = every(name, base) if base in stages() else ""
    return "\n".join([above, *(value for instruction, value in own if instruction == name)])


TARGETS = pytest.mark.parametrize("target", ["default", "inline"])


def published_ports(service: dict[str, Any]) -> list[str]:
    return [str(port) for port in service.get("ports", [])]


def test_compose_file_follows_the_specification() -> None:
    schema = json.loads((PROJECT / "tests" / "fixtures" / "compose-spec.json").read_text())

    jsonschema.Draft202012Validator(schema).validate(COMPOSE)


def test_compose_file_violating_the_specification_is_noticed() -> None:
    schema = json.loads((PROJECT / "tests" / "fixtures" / "compose-spec.json").read_text())

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({"services": {"flink": {"imagee": "flink:2.3"}}})


@EVERY_SERVICE
def test_ports_are_published_on_the_loopback_only(service: dict[str, Any]) -> None:
    assert all(port.startswith("127.0.0.1:") for port in published_ports(service))


@EVERY_SERVICE
def test_dependencies_wait_for_something_that_happens(service: dict[str, Any]) -> None:
    for name, dependency in service.get("depends_on", {}).items():
        if dependency["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[name] or "build" in SERVICES[name]
        else:
            assert dependency["condition"] == "service_completed_successfully"
            assert "restart" not in SERVICES[name]


@EVERY_SERVICE
def test_named_volumes_are_declared(service: dict[str, Any]) -> None:
    sources = {volume.split(":")[0] for volume in service.get("volumes", [])}

    named = {source for source in sources if not source.startswith((".", "/"))}

    assert named <= set(COMPOSE["volumes"])


@EVERY_SERVICE
def test_mounted_files_exist(service: dict[str, Any]) -> None:
    sources = [volume.split(":")[0] for volume in service.get("volumes", [])]

    assert all((COMPOSE_FILE.parent / source).exists() for source in sources if source.startswith("."))


@pytest.mark.parametrize("name", ["jobmanager", "taskmanager"])
def test_flink_runs_with_the_adaptive_scheduler(name: str) -> None:
    properties = yaml.safe_load(SERVICES[name]["environment"]["FLINK_PROPERTIES"])

    assert properties["jobmanager.scheduler"] == "adaptive"
    assert properties["jobmanager.rpc.address"] in SERVICES


def test_compose_builds_the_dockerfile_of_the_project() -> None:
    build = SERVICES["autoscaler"]["build"]

    context = (COMPOSE_FILE.parent / build["context"]).resolve()

    assert context == PROJECT
    assert context / build["dockerfile"] == DOCKERFILE


def test_dockerfile_has_only_known_instructions() -> None:
    assert {instruction for instruction, _ in instructions()} <= INSTRUCTIONS


def test_dockerfile_copies_what_exists_and_is_not_ignored() -> None:
    kept = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    copied = [
        source
        for instruction, value in instructions()
        if instruction == "COPY" and not value.startswith("--from=")
        for source in value.split()[:-1]
    ]

    assert {source for source in copied if not source.startswith("requirements/")} == kept
    assert all((PROJECT / source).exists() for source in copied)


@pytest.mark.parametrize("stage", sorted(stages()))
def test_stage_declares_the_arguments_that_it_uses(stage: str) -> None:
    own = stages()[stage][1]
    declared = {value.partition("=")[0] for instruction, value in own if instruction == "ARG"}

    used = {name for instruction, value in own if instruction == "RUN" for name in re.findall(r"\bWITH_[A-Z]+", value)}

    assert used <= declared


@TARGETS
def test_image_does_not_run_as_root(target: str) -> None:
    assert last("USER", target) == "10001:10001"


@TARGETS
def test_image_starts_the_daemon_without_a_shell(target: str) -> None:
    assert json.loads(last("ENTRYPOINT", target)) == ["flink-autoscaler"]


@TARGETS
def test_image_checks_its_health_where_the_daemon_listens(target: str) -> None:
    port = last("EXPOSE", target)

    program = json.loads(last("HEALTHCHECK", target).split("CMD", 1)[1])[-1]

    assert f"http://127.0.0.1:{port}/healthz" in program
    compile(program, "HEALTHCHECK", "exec")
    assert published_ports(SERVICES["autoscaler"]) == [f"127.0.0.1:{port}:{port}"]


def test_image_reads_the_configuration_that_compose_mounts() -> None:
    path = json.loads(last("CMD"))[-1]

    assert f"./autoscaler.yaml:{path}:ro" in SERVICES["autoscaler"]["volumes"]


def test_daemon_understands_its_configuration() -> None:
    settings, configuration = SettingsLoader(PROJECT / "docker" / "autoscaler.yaml", environment={}).load()

    hosts = {urlsplit(cluster.endpoint.url).hostname for cluster in settings.effective_clusters()}
    assert not configuration.warnings
    assert hosts == {"jobmanager"}
    assert str(settings.http.port) == last("EXPOSE")


@pytest.mark.parametrize("path", sorted((PROJECT / "docker").iterdir()), ids=lambda path: path.name)
def test_files_hold_no_secret(path: Path) -> None:
    assert not SECRET.search(path.read_text())


@TARGETS
def test_what_the_daemon_learns_is_on_the_volume_of_the_image(target: str) -> None:
    (directory,) = re.findall(r"STATE_DIRECTORY=(\S+)", every("ENV", target))

    assert directory == last("VOLUME", target)


@TARGETS
def test_label_has_the_version_of_the_project(target: str) -> None:
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]

    assert f'image.version="{version}"' in last("LABEL", target)


def test_everything_is_installed_by_hash_or_without_an_index() -> None:
    for instruction, value in instructions():
        for command in re.findall(r"(?:pip install|install-packages) [^;&\\]*", value) if instruction == "RUN" else ():
            assert "--require-hashes -r requirements/" in command or "--no-index" in command or '"$@"' in command
