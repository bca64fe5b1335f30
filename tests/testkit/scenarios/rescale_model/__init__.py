"""A simulated cluster with the adaptive scheduler, a network that loses and mixes up everything, and a daemon."""

from testkit.scenarios.rescale_model.cluster import BUFFERS, MAP, MEMORY, OTHER, SOURCE, SimulatedCluster
from testkit.scenarios.rescale_model.daemon import OPTIONS, Daemon
from testkit.scenarios.rescale_model.network import FactsFate, LossyNetwork, PutFate

__all__ = [
    "BUFFERS",
    "MAP",
    "MEMORY",
    "OPTIONS",
    "OTHER",
    "SOURCE",
    "Daemon",
    "FactsFate",
    "LossyNetwork",
    "PutFate",
    "SimulatedCluster",
]
