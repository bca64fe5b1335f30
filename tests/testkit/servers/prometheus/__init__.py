"""A Prometheus of Debian's packages for tests, with rules whose minutes pass within parts of a second.

* ``with Prometheus(folder, target="127.0.0.1:8484", rules=...) as prometheus:`` scrapes a daemon from then on.
* ``prometheus.query(expression)``, ``prometheus.firing()``: what it knows.
* :func:`quickened`: rules as they are written, with shorter times.
* :func:`missing`: why there can be none on this machine.
"""

from testkit.servers.prometheus.quick import RATE_INTERVAL, quickened
from testkit.servers.prometheus.server import Prometheus, free_port, missing, require

__all__ = ["RATE_INTERVAL", "Prometheus", "free_port", "missing", "quickened", "require"]
