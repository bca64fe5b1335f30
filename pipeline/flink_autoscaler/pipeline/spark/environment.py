"""Requirements of Spark on a machine: packages of the extra, memory, a recent Java, and the place of YARN."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.spark.settings import SparkSettings

PACKAGES: Final = ("pyspark", "pyarrow")
"""Of the extra ``spark``: the program works without them where nothing is evaluated on Spark."""

CONNECT_PACKAGES: Final = ("grpc", "grpc_status")
"""Of those that the extra ``connect`` adds."""

EXTRA: Final = "pip install 'flink-autoscaler[spark]'"

OLDEST_JAVA: Final = 17
"""Spark 4 runs on Java 17 and 21 (https://spark.apache.org/docs/latest/)."""

VARIABLES: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
SITE: Final = "yarn-site.xml"

BESIDE_THE_HEAP: Final = 128 << 20
"""Least that this process and a Python worker take where the heap is not full."""

_GROUPS: Final = Path("/proc/self/cgroup")
_ROOT: Final = Path("/sys/fs/cgroup")
_SIZE: Final = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_SHIFTS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}

_OWN_PREFIX: Final = "spark.hadoop.yarn.resourcemanager."
"""Of settings of Spark that say where YARN is without a file."""

_TIMEOUT: Final = 30.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ADVICE: Final = (
    f"The Spark engine needs Java {OLDEST_JAVA} or later: install a runtime such as openjdk-{OLDEST_JAVA}-jre-headless "
    "and put it on the PATH or set JAVA_HOME, or set autoscaler.engine.kind: inline, which needs no Java."
)


def require_environment(settings: SparkSettings) -> None:
    """Check that this machine has what a driver needs.

    Raises:
        ConfigError: Packages are missing, Java is missing or too old, there is too little memory, YARN is the master
            and its configuration is not there, or a Spark Connect server is the master, which has its own driver.
    """
    require_packages()
    if settings.is_connect:
        raise ConfigError(
            "a Spark Connect server evaluates no passes: set autoscaler.engine.spark-master to local[*], spark://... "
            "or yarn; backtest --master and forecast build --set autoscaler.engine.spark-master=... take sc://..."
        )
    require_memory(settings.driver_memory)
    require_java()
    if settings.is_yarn:
        require_yarn(settings.conf)


def require_packages() -> None:
    """Check that the extra ``spark`` is installed, without loading it.

    Raises:
        ConfigError: It is not; the message says how to install it, and how to do without.
    """
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise ConfigError(
            f"the Spark engine needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
            f"installed: {EXTRA}, or set autoscaler.engine.kind: inline, which needs neither Spark nor Java"
        )


def require_connect() -> None:
    """Check that what a client of Spark Connect needs is installed, without loading it.

    Raises:
        ConfigError: It is not; the message says how to install it.
    """
    if missing := [name for name in CONNECT_PACKAGES if find_spec(name) is None]:
        raise ConfigError(
            f"Spark Connect needs more packages ({', '.join(missing)}): pip install 'flink-autoscaler[connect]', or "
            "in an image --build-arg WITH_CONNECT=1"
        )


def require_java() -> None:
    """Check that the Java Spark would start is new enough.

    Raises:
        ConfigError: There is none, or it is too old; the message says what to do.
    """
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        raise ConfigError(f"no java on the PATH. {_ADVICE}")
    version = _VERSION.search(_version_text(java))
    if version is None:
        raise ConfigError(f"{java} does not tell its version. {_ADVICE}")
    if int(version[1]) < OLDEST_JAVA:
        raise ConfigError(f"{java} is Java {version[1]}. {_ADVICE}")


def _version_text(java: str) -> str:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise ConfigError(f"{java} cannot be run: {exc}. {_ADVICE}") from exc
    return answer.stderr + answer.stdout


def require_yarn(conf: Mapping[str, str]) -> None:
    """Check that Spark is told where YARN is; else it would look for it on this machine, for a quarter of an hour.

    Raises:
        ConfigError: It is not; the message names the variable to set.
    """
    given = {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}
    if not given:
        raise ConfigError(
            f"the Spark master is yarn, but neither {' nor '.join(VARIABLES)} is set: set {VARIABLES[0]} in the "
            f"environment of this process to the folder with {SITE} and core-site.xml of the cluster"
        )
    for name, folder in given.items():
        if not Path(folder).is_dir():
            raise ConfigError(f"environment variable {name}: there is no directory '{folder}'")
    has_site = any(Path(folder, SITE).is_file() for folder in given.values())
    if not has_site and not any(key.startswith(_OWN_PREFIX) for key in conf):
        folders = " and ".join(f"{name} ({folder})" for name, folder in given.items())
        raise ConfigError(f"the Spark master is yarn, but there is no {SITE} in {folders}")


def require_memory(heap: str, *, groups: Path = _GROUPS, root: Path = _ROOT) -> None:
    """Check that a driver fits into what the container or unit of this process may take.

    Without the check the system would end the JVM, or this process, in the middle of a pass, again and again.

    Args:
        heap: Of the driver, as Spark writes sizes: ``480m``.
        groups: Control groups of this process, as in ``/proc``.
        root: Where the control groups are mounted.

    Raises:
        ConfigError: It does not fit; the message says what to do.
    """
    size, limit = _bytes(heap), memory_limit(groups=groups, root=root)
    if size is None or limit is None or limit >= size + BESIDE_THE_HEAP:
        return
    raise ConfigError(
        f"this process may take {limit >> 20} MB of memory, as its container or unit says, and Spark with a heap of "
        f"{size >> 20} MB needs {(size + BESIDE_THE_HEAP) >> 20} MB at least, better 1500: give it more, or set "
        "autoscaler.engine.kind: inline, which needs 256"
    )


def memory_limit(*, groups: Path = _GROUPS, root: Path = _ROOT) -> int | None:
    """Return the bytes that this process and its children may take; None where nothing limits them."""
    found = []
    for file in _files(groups, root):
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            found.append(int(file.read_text()))
    return min(found, default=None)


def _files(groups: Path, root: Path) -> Iterator[Path]:
    """Yield where limits may stand; a container sees its own group as the root."""
    yield root / "memory.max"
    yield root / "memory" / "memory.limit_in_bytes"
    with contextlib.suppress(OSError):
        for line in groups.read_text().splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            own = path.lstrip("/")
            if not controllers:
                yield root / own / "memory.max"
            elif "memory" in controllers.split(","):
                yield root / "memory" / own / "memory.limit_in_bytes"


def _bytes(text: str) -> int | None:
    found = _SIZE.fullmatch(text.strip())
    return None if found is None else int(found[1]) << _SHIFTS[found[2].lower()]
