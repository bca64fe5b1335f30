from __future__ import annotations

import re
from pathlib import Path

import pytest

from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.standalone.settings import reference
from flink_autoscaler.standalone.settings.loading import load_settings
from flink_autoscaler.standalone.settings.schema.options import daemon_keys, daemon_options, job_keys
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.sources.configuration import load_configuration
from flink_autoscaler.standalone.settings.sources.variables import variable_name

ROOT = Path(__file__).parents[4]


def active(text: str, *, with_clusters: bool) -> str:
    """Switch on every option of the sample."""
    lines = [line for line in text.splitlines() if re.match(r"# ((job\.)?autoscaler\.|  [- ] )", line)]
    kept = [line[2:] for line in lines if with_clusters or ("clusters" not in line and not line.startswith("#   "))]
    return "\n".join(kept)


@pytest.mark.parametrize(("path", "text"), [(reference.SAMPLE, reference.sample()), (reference.PAGE, reference.page())])
def test_the_documents_equal_the_declarations(path: Path, text: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == text


def test_the_sample_as_it_comes_sets_nothing() -> None:
    configuration = load_configuration(file=ROOT / reference.SAMPLE, environment={}, overrides=())

    assert configuration.values == {}
    assert load_settings(configuration) == Settings()


def test_the_sample_with_every_option_switched_on_is_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(active(reference.sample(), with_clusters=False), encoding="utf-8")

    settings = load_settings(load_configuration(file=file, environment={}, overrides=()))

    options = AutoscalerOptions(settings.job_defaults)
    assert settings.model_copy(update={"job_defaults": {}}) == Settings()
    assert {o.key: o.read(options.configuration) for o in options.declared()} == {
        o.key: o.default for o in options.declared()
    }


def test_the_cluster_of_the_sample_has_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(active(reference.sample(), with_clusters=True), encoding="utf-8")

    settings = load_settings(load_configuration(file=file, environment={}, overrides=()))

    (cluster,) = settings.effective_clusters()
    (only,) = Settings().effective_clusters()
    assert cluster.endpoint.timeout == only.endpoint.timeout
    assert cluster.endpoint.max_connections == only.endpoint.max_connections
    assert (cluster.interval, cluster.engine) == (only.interval, only.engine)


def test_every_option_is_in_the_sample() -> None:
    text = active(reference.sample(), with_clusters=True)
    keys = [key for key, option in daemon_keys().items() if key == option.key]

    missing = [key for key in [*keys, *(o.key for o in AutoscalerOptions.declared())] if f"{key}:" not in text]

    assert missing == []


def test_every_option_is_described() -> None:
    assert [option.key for option in daemon_options() if not option.description.endswith(".")] == []


def test_no_two_keys_share_a_variable() -> None:
    keys = [*daemon_keys(), *job_keys()]

    assert len({variable_name(key) for key in keys}) == len(keys)


def test_writing_the_documents_makes_them_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert [reference.main([]), reference.main(["--write"]), reference.main([])] == [1, 0, 0]
