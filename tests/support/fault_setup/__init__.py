"""Daemons, a cluster and a network that fail on request, each in a process or thread of its own.

* :class:`BusyCluster`: a fake Flink cluster in its own process whose load goes up and down, so that its job is rescaled
  again and again. It has one address per daemon and writes down every PUT with its time and address.
* :class:`DaemonProcess`: a real daemon, to be killed, paused and continued.
* :class:`Pair`: two daemons on one database, of which one leads.
* :class:`StallingProxy`: a TCP proxy that can swallow everything.
* :class:`History`: every version of state and lease that a PostgreSQL database ever committed.
"""

from fault_setup.busy_cluster import BusyCluster, Put
from fault_setup.daemon_process import DaemonProcess
from fault_setup.history import History, LeaseChange, StateChange
from fault_setup.pair import Pair
from fault_setup.proxy import StallingProxy
from fault_setup.rounds import rounds

__all__ = [
    "BusyCluster",
    "DaemonProcess",
    "History",
    "LeaseChange",
    "Pair",
    "Put",
    "StallingProxy",
    "StateChange",
    "rounds",
]
