"""A database of a daemon with two jobs, and every way to damage the rows of one of them.

* :class:`Site`: a fake cluster with the jobs ``sick`` and ``healthy``, and a database in which both have a row in every
  table that has rows of jobs.
* :func:`damages`: every column of every table with every value of :data:`VALUES`, in an order that a seed gives.
"""

from testkit.scenarios.damage.damages import VALUES, Damage, Unwanted, damages
from testkit.scenarios.damage.site import HEALTHY, SICK, Site

__all__ = ["HEALTHY", "SICK", "VALUES", "Damage", "Site", "Unwanted", "damages"]
