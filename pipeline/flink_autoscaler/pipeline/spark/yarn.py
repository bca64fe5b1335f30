"""The Hadoop configuration that Spark needs to find YARN."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from flink_autoscaler.core.errors import ConfigError

VARIABLES: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
SITE: Final = "yarn-site.xml"

_OWN_PREFIX: Final = "spark.hadoop.yarn.resourcemanager."
"""Of settings of Spark that say where YARN is without a file."""


def require_yarn(conf: Mapping[str, str]) -> None:
    """Check that Spark is told where YARN is; else it would look for it on this machine, for a quarter of an hour.

    Args:
        conf: Spark's own configuration.

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
