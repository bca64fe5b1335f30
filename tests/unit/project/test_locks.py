"""The lock files of deployments pin what the project asks for, by hash, and name no index."""

from __future__ import annotations

import re
from importlib.metadata import distributions
from itertools import pairwise

import pytest
from locks import BUILD, DEVELOPMENT, EXTRAS, PROJECT, Pin, lock_file, pins, requirements
from packaging.utils import canonicalize_name

EVERY_LOCK = pytest.mark.parametrize("name", [*EXTRAS, BUILD])
EVERY_EXTRAS = {**EXTRAS, DEVELOPMENT: ("dev", "kerberos")}


def pinned(name: str) -> dict[str, list[Pin]]:
    found: dict[str, list[Pin]] = {}
    for pin in pins(lock_file(name).read_text()):
        found.setdefault(pin.name, []).append(pin)
    return found


@pytest.mark.parametrize("name", EVERY_EXTRAS)
def test_lock_satisfies_what_the_project_asks_for(name: str) -> None:
    there = pinned(name)

    for requirement in requirements(PROJECT / "pyproject.toml", EVERY_EXTRAS[name]):
        if (requirement.name, name) == ("pyspark", DEVELOPMENT):
            continue  # its wheel is built ahead of the installation
        versions = [pin.version for pin in there.get(canonicalize_name(requirement.name), [])]
        assert versions, f"{requirement.name} is not pinned: make lock"
        assert all(requirement.specifier.contains(each) for each in versions), f"{requirement}: make lock"


@EVERY_LOCK
def test_every_package_of_a_lock_is_known_by_its_hash(name: str) -> None:
    assert all(pin.hashes for each in pinned(name).values() for pin in each)


@pytest.mark.parametrize("name", [*EXTRAS, BUILD, DEVELOPMENT])
def test_no_lock_names_an_index_or_a_path(name: str) -> None:
    text = lock_file(name).read_text()

    assert not re.search(r"://|^\s*(-i|--index|--find-links|--extra-index|--trusted)|@ ", text, re.MULTILINE)


def test_what_is_installed_here_is_what_a_set_up_is_bound_to() -> None:
    bound = {name: {pin.version for pin in versions} for name, versions in pinned(DEVELOPMENT).items()}
    installed = {canonicalize_name(each.name): each.version for each in distributions()}

    assert {name for name, version in installed.items() if version not in bound.get(name, {version})} == set()


def test_locks_agree_about_what_they_share() -> None:
    for smaller, larger in pairwise(("inline", "spark", "connect")):
        more = pinned(larger)
        assert all(versions == more[package] for package, versions in pinned(smaller).items())


def test_the_lock_of_an_inline_installation_has_neither_spark_nor_arrow() -> None:
    assert not {"pyspark", "py4j", "pyarrow", "pandas", "numpy"} & set(pinned("inline"))
