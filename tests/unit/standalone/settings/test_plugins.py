from __future__ import annotations

import re
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.plugins import load_plugin, plugin_names, unknown_plugin_problem

GROUP = "flink_autoscaler.test_plugins"


def install(directory: Path, name: str, entries: str, code: str = "") -> None:
    """Lay out an installed distribution: its metadata, and a module of the same name."""
    metadata = directory / f"{name}-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{entries}\n", encoding="utf-8")
    (directory / f"{name}.py").write_text(code, encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_plugin_is_loaded_by_its_name(site: Path) -> None:
    install(site, "fa_plugin_good", "tablet = fa_plugin_good:Tablet", "class Tablet:\n    pass\n")

    assert load_plugin(GROUP, "tablet").__name__ == "Tablet"
    assert plugin_names(GROUP) == ("tablet",)


def test_an_unknown_name_lists_the_known_ones_and_the_nearest(site: Path) -> None:
    install(site, "fa_plugin_known", "stone = x:y\ntablet = x:y")

    with pytest.raises(ConfigError, match=r"no plug-in 'tabet' .*; known: stone, tablet; did you mean 'tablet'\?"):
        load_plugin(GROUP, "tabet")


def test_a_group_without_plugins_says_so() -> None:
    problem = unknown_plugin_problem("flink_autoscaler.nothing_here", "a")

    assert problem == "no plug-in 'a' in flink_autoscaler.nothing_here; known: none is installed"


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        pytest.param("import no_such_module_here", "ModuleNotFoundError: No module named 'no_such", id="import"),
        pytest.param("raise RuntimeError('no licence')", "RuntimeError: no licence", id="raises"),
        pytest.param("", "AttributeError: ", id="class is missing"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_named_with_distribution_and_cause(
    site: Path, request: pytest.FixtureRequest, code: str, cause: str
) -> None:
    name = "fa_plugin_" + re.sub(r"\W", "_", request.node.callspec.id)
    install(site, name, f"tablet = {name}:Tablet", code)

    with pytest.raises(ConfigError, match=rf"plug-in 'tablet' .* of {name} 1\.2 cannot be imported .*{cause}"):
        load_plugin(GROUP, "tablet")


def test_a_name_that_two_distributions_claim_is_refused(site: Path) -> None:
    install(site, "fa_plugin_one", "tablet = fa_plugin_one:A", "A = 1")
    install(site, "fa_plugin_two", "tablet = fa_plugin_two:B", "B = 2")

    with pytest.raises(ConfigError, match=r"several distributions: fa_plugin_one 1\.2, fa_plugin_two 1\.2"):
        load_plugin(GROUP, "tablet")
