"""The process that sends a message through Apprise, and how the daemon begins it.

Services read answers to their end, whatever their length, and follow redirects to any host. Here they cannot: the
process has little memory, follows none, and is killed when its time is over.
"""

from __future__ import annotations

import resource
import signal
from dataclasses import dataclass, field
from typing import Final

from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.standalone.settings.apprise import APPRISE_LOG, apprise_service, load_apprise
from flink_autoscaler.standalone.worker_process import WorkerProcess, init_worker

MAX_MEMORY: Final = 256 << 20
"""Bytes of data that the process may have; Apprise itself takes a third of it."""


@dataclass(frozen=True, slots=True)
class Message:
    """Message to send, with its address.

    Attributes:
        url: Of the service, as Apprise writes it; secret.
        text: Lines.
    """

    url: str = field(repr=False)
    title: str
    text: str
    is_warning: bool


def start_process(message: Message) -> WorkerProcess:
    """Begin to send. Its first message says that it begins, the second holds why nothing was sent, or None.

    Raises:
        WorkerProcessError: It could not be started.
    """
    return WorkerProcess(__name__, message)


def main() -> None:
    """Send a message, and tell the daemon what came of it."""
    message, send = init_worker()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing has to be put in order
    try:
        load_apprise()
        # Apprise reads the modules of all its services when it is first asked for one: not the target's time.
        apprise_service(message.url)
        _follow_no_redirects()
    except ConfigError as error:
        send("begun")
        send((str(error),))
        return
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
    send("begun")
    send((_result(message),))


def _result(message: Message) -> str | None:
    try:
        return _send(message)
    except MemoryError:
        return f"the answer takes more than {MAX_MEMORY >> 20} MiB of memory"
    except AutoscalerError as error:
        return str(error)


def _follow_no_redirects() -> None:
    """Let redirects be answers like others: Apprise's services call requests without a word about them."""
    import requests  # noqa: PLC0415 - in this process alone, and Apprise has it

    requests.Session.get_redirect_target = lambda *_: None  # type: ignore[method-assign]


def _send(message: Message) -> str | None:
    """Send; return why it was not, as far as that was said, and None when it was."""
    service = apprise_service(message.url)
    if service is None:
        return "url: not a URL of a service that Apprise knows"
    library = load_apprise()
    sender = library.Apprise(asset=service.asset)
    sender.add(service)
    kind = library.NotifyType.WARNING if message.is_warning else library.NotifyType.INFO
    with APPRISE_LOG.capture() as said:
        is_sent = sender.notify(
            body=message.text, title=message.title, notify_type=kind, body_format=library.NotifyFormat.TEXT
        )
    return None if is_sent else "; ".join(said) or "the service did not take it, and Apprise does not say why"


if __name__ == "__main__":
    main()
