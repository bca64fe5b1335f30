"""What is built from the checkout is complete and can be imported."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
PARTS = ("core", "clients", "realizers", "stores", "pipeline", "standalone")

# Without site-packages only the core, which needs no library, can be executed; the others must at least be found.
IMPORT_FROM_ARCHIVE = """
import importlib.util
import sys
sys.path[:] = [sys.argv[1], *(entry for entry in sys.path if "site-packages" not in entry and entry)]
import flink_autoscaler.core.model.job
missing = [part for part in sys.argv[2:] if importlib.util.find_spec("flink_autoscaler." + part) is None]
print(flink_autoscaler.core.model.job.__file__)
sys.exit(f"not found in the archive: {missing}" if missing else 0)
"""


def run(*command: str | Path) -> str:
    """Run a command in the project; its output is the assertion message when it fails."""
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    directory = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps")
    isolation = () if importlib.util.find_spec("hatchling") is None else ("--no-build-isolation",)
    run(*pip, *isolation, "--wheel-dir", directory, ".")
    [built] = directory.glob("*.whl")
    return zipfile.Path(built)


@pytest.fixture(scope="module")
def pyfiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("pyfiles")
    # -o: the environment that runs this test is good enough, whatever the time stamps say.
    run(
        "make", "--silent", "-o", ".venv/.setup-demo", "pyfiles", f"BUILD={build}", f"BIN={Path(sys.executable).parent}"
    )
    return build / "pyfiles.zip"


@pytest.mark.parametrize("part", PARTS)
def test_wheel_has_every_module_and_text_of_the_part(wheel: zipfile.Path, part: str) -> None:
    names = set(wheel.root.namelist())

    source = PROJECT / part
    files = [*source.rglob("*.py"), *source.rglob("*.toml")]
    expected = {path.relative_to(source).as_posix() for path in files}

    assert expected <= names
    assert f"flink_autoscaler/{part}/py.typed" in names


def test_wheel_has_nothing_else(wheel: zipfile.Path) -> None:
    names = wheel.root.namelist()

    roots = {name.split("/")[0] for name in names}

    assert "flink_autoscaler/__init__.py" not in names
    assert roots - {"flink_autoscaler"} == {root for root in roots if root.endswith(".dist-info")}


def test_wheel_carries_the_licence_and_the_command(wheel: zipfile.Path) -> None:
    [metadata] = [path for path in wheel.iterdir() if path.name.endswith(".dist-info")]

    assert "Apache License" in (metadata / "licenses" / "LICENSE").read_text()
    assert "flink-autoscaler = flink_autoscaler.standalone.__main__:main" in (metadata / "entry_points.txt").read_text()


def test_archive_for_executors_has_directory_entries(pyfiles: Path) -> None:
    names = set(zipfile.ZipFile(pyfiles).namelist())

    assert {"flink_autoscaler/", *(f"flink_autoscaler/{part}/" for part in PARTS)} <= names


def test_archive_for_executors_imports_without_site_packages(pyfiles: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}

    done = subprocess.run(
        [sys.executable, "-S", "-c", IMPORT_FROM_ARCHIVE, str(pyfiles), *PARTS],
        cwd=pyfiles.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(pyfiles))
