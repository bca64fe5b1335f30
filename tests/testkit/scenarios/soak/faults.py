"""What goes wrong in every round, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from testkit.fakes.flink import Canned, Fault, flink_error
from testkit.scenarios.soak.site import Site

_HOUR = 3600
_BROKEN: Sequence[Fault | Canned | None] = (
    None,
    Fault.HANG,
    flink_error(503, "Service temporarily unavailable due to an ongoing leader election"),
    Fault.TRUNCATED_JSON,
    Fault.RESET,
    Fault.HTML,
)
"""What a cluster answers that fails; None: it refuses connections."""


class Due(NamedTuple):
    """Something that is done at a part of a round, between 0 and 1.

    Attributes:
        waits: Whether the round stands still before it until the daemon has got over what came before: what is kept
            for a day goes in the hours after a step of the clock, however few passes a busy machine has time for.
    """

    at: float
    do: Callable[[], None]
    waits: bool = False


def faults(site: Site, number: int) -> Sequence[Due]:
    """Return what goes wrong in a round, and is mended again, in the order of time. In all, twelve hours pass."""
    cluster = site.clusters[number % len(site.clusters)]
    broken = _BROKEN[number % len(_BROKEN)]

    def break_cluster() -> None:
        cluster.pause() if broken is None else cluster.fault("/", broken)

    def mend_cluster() -> None:
        cluster.resume() if broken is None else cluster.clear_faults()

    return (
        Due(0.05, break_cluster),
        Due(0.18, mend_cluster),
        Due(0.20, lambda: site.clock.step(6 * _HOUR)),
        Due(0.28, site.database.kill if number % 2 else site.database.stop),
        Due(0.36, site.database.start),
        Due(0.44, site.expire_tokens),
        Due(0.50, site.renew_token_file),
        Due(0.54, lambda: site.clock.step(30 * _HOUR)),
        Due(0.58, site.fill_disk, waits=True),
        Due(0.66, site.empty_disk),
        Due(0.70, lambda: site.clock.step(-24 * _HOUR), waits=True),
        Due(0.72, lambda: _refuse(site)),
        Due(0.78, site.receiver.answers.clear),
        Due(0.82, lambda: site.clock.step(-90)),
    )


def _refuse(site: Site) -> None:
    """Have the receiver of notifications refuse what comes; it forgets what has come so far."""
    site.receiver.received.clear()
    site.receiver.answers[:] = [503] * 10_000
