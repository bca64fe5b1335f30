"""A fake YARN cluster over real sockets: ResourceManagers with their web proxy, for tests.

``with FakeYarn(2) as yarn:`` has two ResourceManagers, each on a loopback port of its own; the first is active.

* ``yarn.urls``, ``yarn.managers[0].url``: where they are.
* ``application = yarn.add("orders", flink)``: a running application whose JobManager is a :class:`FakeFlink` (None: its
  ApplicationMaster has not registered). The :class:`FakeApplication` may be changed at any time.
* ``yarn.fail_over()``: the active one becomes a standby and the next one active; ``manager.state`` for single ones.
* ``manager.standby``: how a standby answers, see :class:`Standby`; ``yarn.empty`` and ``yarn.single_as_object``: which
  of the shapes that a JSON stack may have; ``yarn.forwards_put``: whether the web proxy passes PUT on.
* ``manager.listed``: the applications that it lists, where it has others in mind than the cluster has.
* ``manager.requests``, ``manager.paths()``: what arrived; ``manager.fault("/apps", Fault.HANG, times=1)``: misbehave.
* ``manager.pause()`` / ``manager.resume()``: refuse connections, on the same port.
"""

from testkit.fakes.yarn.application import FakeApplication
from testkit.fakes.yarn.cluster import FakeYarn
from testkit.fakes.yarn.resource_manager import FakeResourceManager, Standby

__all__ = ["FakeApplication", "FakeResourceManager", "FakeYarn", "Standby"]
