from __future__ import annotations

import re
from pathlib import Path

import pytest
import reference_pages as reference
from reference_pages.__main__ import main
from reference_pages.chapters import OptionChapter, chapter_of
from reference_pages.daemon_chapters import DAEMON_CHAPTERS
from reference_pages.job_chapters import JOB_CHAPTERS

from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.options import (
    FREE,
    daemon_descriptions,
    daemon_keys,
    daemon_options,
    job_keys,
)
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.sources.configuration import variable_name

ROOT = Path(__file__).parents[3]


def active(text: str, *, with_clusters: bool) -> str:
    """Switch on every option of the sample."""
    lines = [line for line in text.splitlines() if re.match(r"# ((job\.)?autoscaler\.|  [- ] )", line)]
    kept = [line[2:] for line in lines if with_clusters or ("clusters" not in line and not line.startswith("#   "))]
    return "\n".join(kept)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (reference.SAMPLE, reference.sample()),
        (reference.PAGE, reference.page()),
        (reference.WORDS_PAGE, reference.words_page()),
        (reference.UPGRADE_PAGE, reference.upgrade_page()),
    ],
    ids=["sample", "options", "words", "renamed"],
)
def test_the_documents_equal_the_declarations(path: Path, text: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == text


def test_the_sample_as_it_comes_sets_nothing() -> None:
    settings, configuration = SettingsLoader(ROOT / reference.SAMPLE, environment={}).load()

    assert configuration.values == {}
    assert settings == Settings()


def test_the_sample_with_every_option_switched_on_is_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(active(reference.sample(), with_clusters=False), encoding="utf-8")

    settings = SettingsLoader(file, environment={}).read()

    options = AutoscalerOptions(settings.job_defaults)
    assert settings.model_copy(update={"job_defaults": {}}) == Settings()
    assert {o.key: o.read(options.configuration) for o in options.all_options()} == {
        o.key: o.default for o in options.all_options()
    }


def test_the_cluster_of_the_sample_has_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(active(reference.sample(), with_clusters=True), encoding="utf-8")

    settings = SettingsLoader(file, environment={}).read()

    (cluster,) = settings.effective_clusters()
    (only,) = Settings().effective_clusters()
    assert cluster.endpoint.timeout == only.endpoint.timeout
    assert cluster.endpoint.max_connections == only.endpoint.max_connections
    assert (cluster.interval, cluster.engine) == (only.interval, only.engine)


def test_every_option_is_in_the_sample() -> None:
    text = active(reference.sample(), with_clusters=True)
    keys = [key for key, option in daemon_keys().items() if key == option.key]

    missing = [key for key in [*keys, *(o.key for o in AutoscalerOptions.all_options())] if f"{key}:" not in text]

    assert missing == []


def test_what_is_declared_is_described_and_nothing_else() -> None:
    described = {(section, name) for section, table in daemon_descriptions().items() for name in table}
    declared = set()
    for option in daemon_options():
        name = next(part for part in reversed(option.path) if part != FREE)
        sections = [kind.__name__ for kind in option.section.__mro__] if option.section else []
        declared.add(next((section, name) for section in sections if (section, name) in described))
        assert option.description.endswith("."), option.key

    assert declared == described


def test_no_two_keys_share_a_variable() -> None:
    keys = [*daemon_keys(), *job_keys()]

    assert len({variable_name(key) for key in keys}) == len(keys)


def test_writing_the_documents_makes_them_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert [main([]), main(["--write"]), main([])] == [1, 0, 0]


OPTIONS = [
    *((entry.key, DAEMON_CHAPTERS) for entry in daemon_options()),
    *((option.key, JOB_CHAPTERS) for option in AutoscalerOptions.all_options()),
]
CHAPTERS = pytest.mark.parametrize("chapter", [*DAEMON_CHAPTERS, *JOB_CHAPTERS], ids=lambda each: each.title)


def test_every_option_has_one_row_in_the_chapters() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| ", reference.page(), re.MULTILINE)

    assert sorted(rows) == sorted(key for key, _ in OPTIONS)


def test_every_chapter_of_the_page_is_of_a_size_to_read() -> None:
    chapters = re.split(r"^### ", reference.page(), flags=re.MULTILINE)[1:]

    assert max(len(re.findall(r"^\| `", text, re.MULTILINE)) for text in chapters) <= 40
    assert max(map(len, chapters)) < 8_000


@CHAPTERS
def test_every_beginning_of_keys_of_a_chapter_has_options(chapter: OptionChapter) -> None:
    own = [key for key, chapters in OPTIONS if chapter in chapters and chapter_of(key, chapters) is chapter]

    assert [prefix for prefix in chapter.prefixes if not any(key.startswith(prefix) for key in own)] == []


@CHAPTERS
def test_the_example_of_a_chapter_works_and_is_about_its_options(chapter: OptionChapter, tmp_path: Path) -> None:
    file, secret = tmp_path / "example.yaml", tmp_path / "secret"
    secret.write_text("a secret", encoding="utf-8")
    file.write_text(re.sub(r"/run/secrets/\S+", str(secret), chapter.example), encoding="utf-8")

    _, configuration = SettingsLoader(file, environment={}).load()

    keys = [re.sub(r"\.\d+\.", ".<n>.", key, count=1) for key in configuration.values]
    assert any(key.startswith(chapter.prefixes) for key in keys), keys
