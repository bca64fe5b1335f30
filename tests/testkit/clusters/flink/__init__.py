"""Real Flink clusters for tests and the demo.

Needs Python's pip, a JDK 17 and, once, the network. The names below are imported when they are asked for: the jars
can be made ready before anything is installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testkit.clusters.flink.application import FlinkApplicationCluster
    from testkit.clusters.flink.cluster import FlinkCluster
    from testkit.clusters.flink.errors import HarnessError
    from testkit.clusters.flink.process import FlinkProcess

__all__ = ["FlinkApplicationCluster", "FlinkCluster", "FlinkProcess", "HarnessError"]

_HOMES = {
    "FlinkApplicationCluster": "testkit.clusters.flink.application",
    "FlinkCluster": "testkit.clusters.flink.cluster",
    "HarnessError": "testkit.clusters.flink.errors",
    "FlinkProcess": "testkit.clusters.flink.process",
}


def __getattr__(name: str) -> object:
    """Import a name on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
