"""A fake Flink cluster over real sockets, for tests.

``with FakeFlink() as flink:`` listens on a free loopback port in a thread of its own.

* ``flink.url``, ``flink.endpoint(timeout=1.0, ...)``: where it is.
* ``job = flink.add_job("orders", chain(sources=1, vertices=3))``: serve a job. The :class:`FakeJob` and its
  :class:`FakeVertex` values may be changed at any time; answers follow at once.
* ``job.rescale({vertex_id: 4})``: change the parallelism as a rescale does; with ``job.obeys = True`` every accepted
  PUT of resource requirements does that, else it only changes ``job.requirements``.
* ``flink.requests``: what arrived, in order, as :class:`FakeRequest`; ``flink.paths("GET")`` for short.
* ``flink.fault("/jobs/overview", Fault.HANG, times=1)``: misbehave for paths that contain a text; instead of a
  :class:`Fault` a :class:`Canned` answer can be given. ``flink.clear_faults()`` ends it.
* ``flink.pause()`` / ``flink.resume()``: refuse connections, on the same port.
* ``FakeFlink(store=FakeMetricStore(interval=1.0))``: metrics are gathered on request, at most once per interval, and
  answered from what was gathered before; ``vertex.records_per_second`` lets counters grow between.
* ``/metrics``: what Flink's PrometheusReporter says of the jobs, as they are now, all on one TaskManager.
* ``flink.gate``: holds the requests that it tells; they are answered as things are when it lets them through.
* ``flink.delay``: seconds before every answer. ``flink.connections``, ``flink.most_at_once``: what was counted.
"""

from testkit.fakes.flink.cluster import FakeFlink
from testkit.fakes.flink.faults import Canned, Fault, flink_error
from testkit.fakes.flink.job import FakeJob, FakeVertex, chain
from testkit.fakes.flink.metric_store import FakeMetricStore
from testkit.fakes.flink.server import FakeRequest

__all__ = [
    "Canned",
    "FakeFlink",
    "FakeJob",
    "FakeMetricStore",
    "FakeRequest",
    "FakeVertex",
    "Fault",
    "chain",
    "flink_error",
]
