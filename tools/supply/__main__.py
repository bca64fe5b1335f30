"""``python -m supply [--offline]``: look up known vulnerabilities of what is pinned, and check licences.

Vulnerabilities are asked for with pip-audit, which asks a service on the network. Where that cannot be reached, nothing
is known and the check fails; ``--offline`` leaves it out, says so, and ends with 0 when the licences are fine.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final

from releasing.building import PROJECT, ReleaseError, environment, run

LOCK: Final = PROJECT / "requirements" / "connect.txt"
"""The one with most packages, but for Kerberos, whose two are built from source."""

_UNKNOWN: Final = "vulnerabilities: NOTHING IS KNOWN"
ALLOWED: Final = re.compile(
    r"\b(MIT|BSD|Apache|ISC|PSF|Python Software Foundation|Python-2|MPL|Mozilla Public|LGPL|Lesser General|HPND|CMU"
    r"|CNRI|Unlicense|0BSD|Zlib|Boost|CC0|Public Domain)",
    re.IGNORECASE,
)
REFUSED: Final = re.compile(
    r"\b(AGPL|Affero|GPL|GNU General Public|SSPL|Commons Clause|BUSL|Proprietary)\b", re.IGNORECASE
)
_BSD_TEXT: Final = "Redistribution and use in source and binary forms"
LESSER: Final = re.compile(r"L(esser )?GPL[\w.+-]*|GNU Lesser General Public[\w ()+.]*", re.IGNORECASE)


def main() -> int:
    """Check both; return 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(prog="supply")
    parser.add_argument("--offline", action="store_true", help="leave out what needs the vulnerability service")
    given = parser.parse_args()
    try:
        fine = licences_are_fine()
        if given.offline:
            print("vulnerabilities: NOT CHECKED, as --offline says")
        else:
            fine = has_no_known_vulnerability() and fine
    except ReleaseError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0 if fine else 1


def licences_are_fine() -> bool:
    """Install what is pinned, print the licence of each package, and tell whether all may be shipped."""
    with tempfile.TemporaryDirectory(prefix="flink-autoscaler-supply-") as scratch:
        made = environment(Path(scratch) / "venv", "--no-verify-hashes", "--no-deps", "-r", LOCK)
        wrong = 0
        for name, version, licence in sorted(licences(made)):
            problem = judged(licence)
            wrong += problem is not None
            print(f"{name} {version}: {licence or 'no licence stated'}{'' if problem is None else f'  <-- {problem}'}")
    print(f"licences: {wrong} to look at")
    return wrong == 0


def licences(made: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name, version and licence of what an environment has."""
    for package in distributions(path=[str(each) for each in made.glob("lib/python3*/site-packages")]):
        yield package.metadata["Name"], package.version, licence_of(package)


def licence_of(package: Distribution) -> str:
    """Return the licence as the package states it: as an expression, by its classifiers, or in its own words."""
    expression = package.metadata["License-Expression"]
    classified = [
        each.rpartition(" :: ")[2] for each in package.metadata.get_all("Classifier") or [] if "License ::" in each
    ]
    own = " ".join((package.metadata["License"] or "").split())
    return str(expression or "; ".join(classified) or ("BSD, by its text" if _BSD_TEXT in own else own[:60]))


def judged(licence: str) -> str | None:
    """Return what is wrong with a licence; None where it may be shipped with an Apache-licensed program."""
    if REFUSED.search(LESSER.sub("", licence)) and " OR " not in licence:
        return "may not be shipped"
    return None if ALLOWED.search(licence) else "not known: look at it"


def has_no_known_vulnerability() -> bool:
    """Ask for the vulnerabilities of what is pinned.

    Raises:
        ReleaseError: The service did not answer, or pip-audit cannot be installed: nothing is known then.
    """
    with tempfile.TemporaryDirectory(prefix="flink-autoscaler-audit-") as scratch:
        made = environment(Path(scratch) / "venv", "pip-audit")
        command = (made / "bin" / "pip-audit", "--disable-pip", "--require-hashes", "--requirement", LOCK)
        report = Path(scratch) / "report.json"
        try:
            run(*command, "--timeout", 15, "--format", "json", "--output", report)
        except ReleaseError as error:  # also where it found something
            if not report.exists():
                raise ReleaseError(f"{_UNKNOWN}, pip-audit got no answer from its service:\n{error}") from error
        return told(json.loads(report.read_text())["dependencies"])


def told(dependencies: list[dict[str, Any]]) -> bool:
    """Print what pip-audit found, and tell whether nothing is known against any package.

    Args:
        dependencies: Of its report.

    Raises:
        ReleaseError: It could not ask about a package.
    """
    if unasked := [each["name"] for each in dependencies if "skip_reason" in each]:
        raise ReleaseError(f"{_UNKNOWN} about {len(unasked)} of {len(dependencies)} packages: {', '.join(unasked)}")
    found = [(each, vulnerability) for each in dependencies for vulnerability in each["vulns"]]
    for each, vulnerability in found:
        fixed = ", ".join(vulnerability["fix_versions"]) or "nowhere yet"
        print(f"{each['name']} {each['version']}: {vulnerability['id']}, fixed in {fixed}")
    print(f"vulnerabilities: {len(found)} known in {len(dependencies)} packages")
    return not found


if __name__ == "__main__":
    sys.exit(main())
