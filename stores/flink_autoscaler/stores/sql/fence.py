"""The border between writing state and being allowed to."""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import Connection

from flink_autoscaler.core.errors import StoreError


class LeaseLostError(StoreError):
    """Another daemon holds the lease by now; this one may not write or act any more."""


class Fence(Protocol):
    """Keeps a daemon that is not the leader any more from writing.

    Called as the first statement of every transaction that writes, from any thread.
    """

    def check(self, connection: Connection) -> None:
        """Lock the lease, so that its token cannot change before the transaction ends.

        Raises:
            LeaseLostError: The token of this daemon is not the current one.
        """
        ...
