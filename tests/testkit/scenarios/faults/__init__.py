"""Two daemons, a cluster and a network that fail on request, each in a process or thread of its own.

* :class:`BusyCluster`: a fake Flink cluster in its own process whose load goes up and down, so that its job is rescaled
  again and again. It has one address per daemon and writes down every PUT with its time and address.
* :class:`Pair`: two daemons on one database, of which one leads.
* :class:`StallingProxy`: a TCP proxy that can swallow everything.
* :class:`History`: every version of state and lease that a PostgreSQL database ever committed.
"""

from testkit.scenarios.faults.busy_cluster import BusyCluster, Put
from testkit.scenarios.faults.history import History, LeaseChange, StateChange
from testkit.scenarios.faults.pair import Pair
from testkit.scenarios.faults.proxy import StallingProxy
from testkit.scenarios.faults.rounds import rounds

__all__ = [
    "BusyCluster",
    "History",
    "LeaseChange",
    "Pair",
    "Put",
    "StallingProxy",
    "StateChange",
    "rounds",
]
