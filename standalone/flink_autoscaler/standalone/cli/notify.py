"""``notify``: tries out who is told about events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.options.option import nearest
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

if TYPE_CHECKING:
    from flink_autoscaler.standalone.settings.schema.clusters import NotificationSettings, TargetSettings

app = typer.Typer()

_HOW: Final = "flink-autoscaler notify --test sends one message to each target; nothing else is done by this command"


@cli.command(
    app,
    "flink-autoscaler notify --test --config autoscaler.yaml",
    "flink-autoscaler notify --test --target on-call --json",
    codes="0 when every target took the message, 1 when one did not, 2 when the configuration is wrong.",
    short_help="Send a test notification.",
)
def notify(
    given: cli.GivenSettings,
    test: Annotated[bool, cli.switch("--test", "Send one test message.")] = False,
    target: Annotated[list[str] | None, cli.valued("--target", "NAME", "Only this target; may be repeated.")] = None,
    as_json: cli.JsonOption = False,
) -> int:
    """Send one test message to each target of autoscaler.notifications, and show the result.

    Ignores rules and does not retry.
    """
    if not test:
        raise typer.BadParameter(_HOW)
    from flink_autoscaler.standalone.notifications.targets import send_test_messages

    prepared = given.prepare()
    targets = _chosen(prepared.notifications, target or [])
    documents = send_test_messages(targets, prepared.ha.name)
    sent = sum(document["is_sent"] for document in documents)
    if as_json:
        out.print_document({"targets": documents})
    else:
        rows = [(each["name"], each["type"], each["place"], each["error"] or "sent") for each in documents]
        out.print_table(("TARGET", "TYPE", "WHERE", "RESULT"), rows)
        out.write_out(f"{sent} of {len(documents)} sent\n")
    return 0 if sent == len(documents) else 1


def _chosen(settings: NotificationSettings, names: Sequence[str]) -> list[TargetSettings]:
    """Return the targets with these names, or all of them without names. May raise :class:`ConfigError`."""
    known = [target.name for target in settings.targets]
    if not known:
        raise ConfigError("autoscaler.notifications.targets is empty: there is nobody to tell")
    for name in names:
        if name not in known:
            raise ConfigError(
                f"--target '{name}': there is no such target; known: {', '.join(known)}{nearest(name, known)}"
            )
    return [target for target in settings.targets if target.name in (names or known)]
