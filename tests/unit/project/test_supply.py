"""What is said of licences and vulnerabilities, and that silence is no good news."""

from __future__ import annotations

from typing import Any

import pytest
from releasing.building import ReleaseError
from supply.__main__ import judged, told


def a_dependency(**more: Any) -> dict[str, Any]:
    return {"name": "a", "version": "1", **more}


@pytest.mark.parametrize(
    "licence",
    ["MIT", "BSD-3-Clause AND MIT", "LGPL-3.0-only", "GNU Lesser General Public License v3 (LGPLv3)", "MIT OR GPL-2.0"],
)
def test_licence_that_may_be_shipped(licence: str) -> None:
    assert judged(licence) is None


@pytest.mark.parametrize(
    "licence", ["GPL-3.0-only", "GNU Affero General Public License v3", "Proprietary", "", "Beerware"]
)
def test_licence_that_somebody_has_to_look_at(licence: str) -> None:
    assert judged(licence) is not None


def test_package_that_could_not_be_asked_about_is_an_error() -> None:
    with pytest.raises(ReleaseError, match="NOTHING IS KNOWN about 1 of 2 packages: a"):
        told([a_dependency(skip_reason="not found"), a_dependency(vulns=[])])


def test_known_vulnerability_is_told_with_the_version_that_has_it_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert not told([a_dependency(vulns=[{"id": "CVE-1", "fix_versions": ["2"]}])])
    assert "a 1: CVE-1, fixed in 2" in capsys.readouterr().out


def test_nothing_known_is_fine() -> None:
    assert told([a_dependency(vulns=[])])
