"""The Java that Spark needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Final

from flink_autoscaler.core.errors import ConfigError

OLDEST_JAVA: Final = 17
"""Spark 4 runs on Java 17 and 21 (https://spark.apache.org/docs/latest/)."""

_TIMEOUT: Final = 30.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ADVICE: Final = (
    f"The Spark engine needs Java {OLDEST_JAVA} or later: install a runtime such as openjdk-{OLDEST_JAVA}-jre-headless "
    "and put it on the PATH or set JAVA_HOME, or set autoscaler.engine.kind: inline, which needs no Java."
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
