"""How often a fault is caused."""

from __future__ import annotations

import os


def rounds(whole: int, *, short: int) -> int:
    """Return how often to do something.

    Args:
        whole: In the whole suite.
        short: While nothing else is asked for. ``FAULT_ROUNDS`` is a share of the whole, such as 1 or 0.25.
    """
    share = os.environ.get("FAULT_ROUNDS")
    return short if share is None else max(1, round(whole * float(share)))
