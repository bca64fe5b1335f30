"""Real Flink clusters for tests and the demo.

Needs Python's pip, a JDK 17 and, once, the network. The names below are imported when they are asked for: the jars
can be made ready before anything is installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flink_cluster.application import FlinkApplicationCluster
    from flink_cluster.cluster import FlinkCluster
    from flink_cluster.errors import HarnessError
    from flink_cluster.process import FlinkProcess

__all__ = ["FlinkApplicationCluster", "FlinkCluster", "FlinkProcess", "HarnessError"]

_HOMES = {
    "FlinkApplicationCluster": "flink_cluster.application",
    "FlinkCluster": "flink_cluster.cluster",
    "HarnessError": "flink_cluster.errors",
    "FlinkProcess": "flink_cluster.process",
}


def __getattr__(name: str) -> object:
    """Import a name on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
