"""Machines for tests: Debian in a folder, Docker in namespaces of its own, a booted systemd.

Everything needs root and debootstrap, lies below the cache folder, and ends with the test. Nothing of the machine that
runs the tests is configured: no bridge, no firewall rule, no unit.
"""

from testkit.clusters.machines.errors import MachineError
from testkit.clusters.machines.roots import Root, missing_tools, root

__all__ = ["MachineError", "Root", "missing_tools", "root"]
