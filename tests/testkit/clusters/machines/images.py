"""Images for tests: ours, built from the checkout, and one of Flink, built from the jars that all tests use."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

from pip_settings import read_settings

from testkit.clusters.flink.cache import cache_directory
from testkit.clusters.flink.configuration import FAST, FAST_BY_VERSION, MEMORY, write_configuration
from testkit.clusters.flink.distribution import distribution
from testkit.clusters.flink.java import MODULE_OPTIONS, SLIM_OPTIONS
from testkit.clusters.machines.engine import Engine, docker_engine, imported
from testkit.clusters.machines.roots import JAVA, PYTHON, root

PROJECT: Final = Path(__file__).parents[4]
BASE: Final = "python:3.12-slim-bookworm"
WITH_SPARK: Final = "flink-autoscaler"
INLINE: Final = "flink-autoscaler:inline"
FULL: Final = "flink-autoscaler:full"
"""The one with Spark, with all build arguments."""
INLINE_KERBEROS: Final = "flink-autoscaler:inline-kerberos"
FLINK: Final = "flink:2.3"

_KERBEROS: Final = ("--build-arg", "WITH_KERBEROS=1")
# The smaller ones first: the larger ones begin with the same steps.
_OURS: Final = {
    INLINE: ("--target", "inline"),
    WITH_SPARK: (),
    INLINE_KERBEROS: ("--target", "inline", *_KERBEROS),
    FULL: ("--build-arg", "WITH_CONNECT=1", *_KERBEROS),
}

_PATH: Final = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BUILD_TIMEOUT: Final = 1500.0
_FLINK: Final = """\
FROM java-base
RUN groupadd --gid 9999 flink && useradd --uid 9999 --gid flink --home-dir /opt/flink flink
COPY lib /opt/flink/lib
COPY conf /opt/flink/conf
COPY entrypoint.sh /entrypoint.sh
RUN chown -R flink:flink /opt/flink/conf
ENV JVM_OPTIONS="{options}"
WORKDIR /opt/flink
ENTRYPOINT ["/entrypoint.sh"]
"""


def docker_data() -> Path:
    """Return the folder with images and layers, which is kept: a second build takes seconds."""
    return cache_directory() / "machines" / "docker"


def scratch_folder(name: str) -> Path:
    """Return a folder for what ends with a test."""
    return cache_directory() / "machines" / f"scratch-{name}"


def build_images(wanted: Collection[str]) -> None:
    """Build images, in an engine that has the network of this machine.

    Args:
        wanted: Names of images of ours, and of Flink's.

    Raises:
        MachineError: One cannot be built; with the end of what was said.
    """
    with docker_engine(docker_data(), scratch_folder("build"), PROJECT, alone=False) as engine:
        imported(engine, BASE, root(PYTHON), _PATH)
        for tag, options in _OURS.items():
            if tag in wanted:
                _build(engine, tag, PROJECT, "--file", PROJECT / "docker" / "Dockerfile", *options)
    if FLINK in wanted:
        _build_flink()


def _build_flink() -> None:
    context = scratch_folder("flink-context")
    _flink_context(context)
    with docker_engine(docker_data(), scratch_folder("build"), context, alone=False) as engine:
        imported(engine, "java-base", root(JAVA), _PATH)
        _build(engine, FLINK, context)


def _build(engine: Engine, tag: str, context: Path, *options: object) -> None:
    index = read_settings(Path(sys.executable)).values.get("index-url", "")
    arguments = ("--build-arg", f"PIP_INDEX_URL={index}") if index else ()
    words = ("build", "--network", "host", "--tag", tag, *arguments, *options, context)
    engine.docker(*words, timeout=_BUILD_TIMEOUT)


def _flink_context(context: Path) -> None:
    """Put together what the image of Flink is built from."""
    shutil.rmtree(context, ignore_errors=True)
    shutil.copytree(distribution("2.3").lib, context / "lib", copy_function=os.link)
    fast = {**FAST, **FAST_BY_VERSION["2.3"], **MEMORY, "io.tmp.dirs": "/tmp", "web.upload.dir": "/tmp/upload"}
    write_configuration(context / "conf", fast).rename(context / "conf" / "defaults.yaml")
    options = " ".join((*MODULE_OPTIONS, *SLIM_OPTIONS))
    (context / "Dockerfile").write_text(_FLINK.format(options=options))
    shutil.copy(Path(__file__).parent / "flink_image" / "entrypoint.sh", context / "entrypoint.sh")
    (context / "entrypoint.sh").chmod(0o755)
