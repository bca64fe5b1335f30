"""Writes what an image consists of as CycloneDX 1.6: packages of Python, jars, packages of Debian.

``python3 sbom.py /opt/flink-autoscaler sbom.cdx.json``, standard library only; run in the image that it describes. The
same image gives the same bytes: there is no date and no serial number in it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

JAR = re.compile(r"^(?P<name>.+?)-(?P<version>\d[\w.+-]*)\.jar$")
DEBIAN = Path("/var/lib/dpkg/status")

Component = dict[str, Any]


def main(environment: Path, target: Path) -> None:
    """Write the document."""
    found = [*of_python(environment), *of_java(environment), *of_debian(DEBIAN)]
    own = [each for each in found if each["name"] == "flink-autoscaler"]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**own[0], "type": "application"} if own else {}},
        "components": [each for each in found if each not in own],
    }
    target.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    sys.stdout.write(f"{target}: {len(found)} components\n")


def of_python(environment: Path) -> Iterator[Component]:
    """Yield the packages of an environment, by name."""
    folders = [str(path) for path in environment.glob("lib/python3*/site-packages")]
    yield from sorted(map(python_package, distributions(path=folders)), key=lambda each: str(each["name"]))


def python_package(package: Distribution) -> Component:
    """Describe one package with its licence, as it names it."""
    name = re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()
    stated = package.metadata["License-Expression"] or package.metadata["License"] or ""
    classified = [
        each.rpartition(" :: ")[2] for each in package.metadata.get_all("Classifier") or [] if "License" in each
    ]
    licence = next((text for text in (stated.strip(), *classified) if text and "\n" not in text), None)
    return component(name, package.version, f"pkg:pypi/{name}@{quote(package.version)}", licence)


def of_java(environment: Path) -> Iterator[Component]:
    """Yield the jars of Spark, by name, and the Java runtime."""
    for path in sorted(environment.glob("lib/python3*/site-packages/pyspark/jars/*.jar")):
        if found := JAR.match(path.name):
            yield component(found["name"], found["version"], f"pkg:generic/{found['name']}@{quote(found['version'])}")
    release = Path("/opt/java/release")
    if release.exists() and (version := re.search(r'JAVA_VERSION="([^"]+)"', release.read_text())):
        yield component("openjdk", version[1], f"pkg:generic/openjdk@{version[1]}")


def of_debian(status: Path) -> Iterator[Component]:
    """Yield the packages that dpkg knows as installed."""
    for paragraph in status.read_text().split("\n\n") if status.exists() else ():
        fields = dict(re.findall(r"^(Package|Version|Status|Architecture): (.+)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            yield component(name, version, f"pkg:deb/debian/{name}@{quote(version)}?arch={fields['Architecture']}")


def component(name: str, version: str, purl: str, licence: str | None = None) -> Component:
    """Return one entry of the document."""
    found = {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}
    return found | ({"licenses": [{"license": {"name": licence}}]} if licence else {})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
