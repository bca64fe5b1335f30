"""Two versions of the program, each installed from its wheel, that work with one cluster and one database in turn.

* :class:`Version`: an installed version.
* :class:`Site`: what they work with, and what must survive when one follows the other.
* :func:`driven`: load for a job of a fake cluster in this process.
"""

from testkit.scenarios.upgrading.load import driven
from testkit.scenarios.upgrading.site import Kept, Site, known_revision, said
from testkit.scenarios.upgrading.version import Version

__all__ = ["Kept", "Site", "Version", "driven", "known_revision", "said"]
