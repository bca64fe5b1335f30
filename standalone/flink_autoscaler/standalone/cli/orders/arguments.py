"""What an order is given with: whom it is about, who gives it, for how long, which vertices it pins."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.orders import Signed
from flink_autoscaler.standalone.fetchers.job_keys import printable

if TYPE_CHECKING:
    from flink_autoscaler.standalone.cli.command import GivenSettings
    from flink_autoscaler.standalone.cli.orders.commands import OrderedBy

_LONGEST_REASON: Final = 500
_LONGEST_NAME: Final = 100
_HIGHEST_PARALLELISM: Final = 1 << 15

Sign = Callable[[int], Signed]
"""Signs an order with an instant, epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class OrderArguments:
    """Whom an order is about and who gives it, as text from the command line.

    Attributes:
        given: Where the settings of the daemon come from.
        by: Who gives it; None takes the login name and the host.
        job: Key, name, id, pattern or end of a key.
        reason: None where none is needed.
        is_new: Whether ``job`` is the key of a job that the daemon has not seen yet.
        needs_reason: Whether the reason may not be empty.
    """

    given: GivenSettings
    by: OrderedBy
    job: str
    reason: str | None
    is_new: bool = False
    needs_reason: bool = False

    def signing(self) -> Sign:
        """Return what signs an order.

        Raises:
            ConfigError: The name or the reason cannot be kept.
        """
        who = _kept("--as", self.by.who if self.by.who is not None else _login(), _LONGEST_NAME)
        reason = _kept("--reason", self.reason or "", _LONGEST_REASON)
        if self.needs_reason and not reason:
            raise ConfigError("--reason is empty: say why, for those who come after you")
        if not who:
            raise ConfigError("--as is empty: say who you are")
        return partial(Signed, who, reason)


def lasting(text: str) -> int:
    """Return the milliseconds that ``--for`` means.

    Raises:
        ConfigError: It is no duration with a unit.
    """
    stripped = text.strip()
    try:
        milliseconds = syntax.parse_time(stripped).ms
    except ValueError:
        milliseconds = 0
    if milliseconds <= 0 or stripped.isdigit():
        raise ConfigError(f"--for '{text}': expected a duration such as 30min, 2h or 1d")
    return milliseconds


def pinned(text: str) -> tuple[str, int]:
    """Return pattern and parallelism of ``VERTEX=PARALLELISM``.

    Raises:
        ConfigError: It is something else.
    """
    pattern, equals, number = text.rpartition("=")
    try:
        parallelism = syntax.parse_int(number.strip())
    except ValueError:
        parallelism = 0
    if not (pattern.strip() and equals) or not 1 <= parallelism <= _HIGHEST_PARALLELISM:
        raise ConfigError(f"'{text}': expected VERTEX=PARALLELISM, such as 'Source: *=4', from 1 to 32768")
    return printable(pattern.strip()), parallelism


def _kept(option: str, text: str, longest: int) -> str:
    if len(text) > longest:
        raise ConfigError(f"{option}: {len(text)} characters; at most {longest} are kept")
    return printable(" ".join(text.split()))


def _login() -> str:
    """Name the person as far as the system knows; who became root has a name besides."""
    try:
        name = os.environ.get("SUDO_USER") or getpass.getuser()
    except (OSError, KeyError):
        name = f"uid {os.getuid()}"  # a container need not know its users
    return f"{name}@{socket.gethostname()}"[:_LONGEST_NAME]
