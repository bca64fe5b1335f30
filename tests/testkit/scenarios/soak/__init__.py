"""A week without a person, compressed into a run: what a real daemon does with it, and whether anything grows.

``python -m testkit.scenarios.soak`` starts a daemon with its history, page, records and notifications,
a PostgreSQL server, fake clusters whose jobs come and go, and a receiver. In every round, half a day by the clock of
daemon and database, each thing that goes wrong in a week goes wrong once. What the daemon takes is measured all the
time, and judged in the end: the first rounds are those in which everything fills up; from then on nothing may grow.

* :func:`judged`: whether a figure grows, from one value per round.
* :class:`Site`: the parts.
* :func:`soak`: runs a :class:`Plan` and returns the :class:`Outcome`.
"""

from testkit.scenarios.soak.growth import Growth, Slope, Tolerance, judged, slope
from testkit.scenarios.soak.outcome import Outcome
from testkit.scenarios.soak.plan import Plan
from testkit.scenarios.soak.running import soak
from testkit.scenarios.soak.site import Site

__all__ = ["Growth", "Outcome", "Plan", "Site", "Slope", "Tolerance", "judged", "slope", "soak"]
