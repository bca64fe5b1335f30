"""Checks of notifications: where targets are and how they are reached, and what rules name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.message_catalog import EntryKind, catalog_sections
from flink_autoscaler.core.options.option import closest_key
from flink_autoscaler.standalone.settings.apprise import apprise_service
from flink_autoscaler.standalone.settings.checks.clusters import (
    ConfigEntry,
    access_problems,
    access_warnings,
    config_entries,
    duplicate_names,
)
from flink_autoscaler.standalone.settings.credentials import target_url
from flink_autoscaler.standalone.settings.schema.clusters import RuleSettings, TargetSettings
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.secrets import mask_target_url, read_secret
from flink_autoscaler.standalone.settings.sources.layer import Value

_KEY: Final = ("key-file", "key-env-variable")
_PLACES_OF_URL: Final = ("url", "url-file", "url-env-variable")
_OF_WEBHOOKS: Final = ("auth", "tls", "headers", "headers-env", "headers-file")
_TARGETS: Final = "autoscaler.notifications.targets"
_WILD: Final = frozenset("*?[")


def notification_problems(settings: Settings, values: Mapping[str, Value]) -> Iterator[str]:
    """Yield what is wrong with targets and rules, one sentence per problem. Reads the files that are named."""
    notifications = settings.notifications
    places = config_entries(_TARGETS, values)
    names = [target.name for target in notifications.targets]
    yield from duplicate_names(zip(places, names, strict=True))
    for place, target in zip(places, notifications.targets, strict=True):
        yield from _target_problems(target, place)
    rules = zip(config_entries("autoscaler.notifications.rules", values), notifications.rules, strict=True)
    for place, rule in rules:
        yield from _rule_problems(rule, place, names)


def notification_warnings(settings: Settings, values: Mapping[str, Value]) -> Iterator[str]:
    """Yield what looks dangerous about how targets are reached, one sentence each."""
    for place, target in zip(config_entries(_TARGETS, values), settings.notifications.targets, strict=True):
        if target.type == "webhook" and target.url is not None:
            yield from access_warnings(target, place, [mask_target_url(target.url)])


def _target_problems(target: TargetSettings, place: ConfigEntry) -> Iterator[str]:
    given = [name for name in _PLACES_OF_URL if place.is_set(name)]
    if len(given) != 1:
        found = " and ".join(map(place.describe, given)) or place.describe("url")
        yield f"{found}: expected one of {', '.join(_PLACES_OF_URL)}"
        return
    try:
        url = target_url(target, place.prefix)
    except ConfigError as error:
        yield str(error)
        return
    yield from (_apprise_problems if target.type == "apprise" else _webhook_problems)(target, place, url)


def _apprise_problems(target: TargetSettings, place: ConfigEntry, url: str) -> Iterator[str]:
    chosen = f"{place.prefix}type {target.type}"
    names = [name for group in _OF_WEBHOOKS for name in place.set_children(group)]
    for name in [*filter(place.is_set, _KEY), *names]:
        yield f"{place.describe(name)}: only for webhooks; {chosen} has everything in its URL"
    try:
        if apprise_service(url) is None:
            yield f"{_place_of_url(place)}: not the URL of a service that Apprise knows; see its list of services"
    except ConfigError as error:
        yield f"{chosen}: {error}"


def _webhook_problems(target: TargetSettings, place: ConfigEntry, url: str) -> Iterator[str]:
    if not _is_web_address(url):
        yield f"{_place_of_url(place)}: expected http:// or https:// and a host for {place.prefix}type {target.type}"
        return
    if all(map(place.is_set, _KEY)):
        yield f"{' and '.join(map(place.describe, _KEY))}: expected one of the two"
    try:
        read_secret(place.prefix, "key", variable=target.key_env_variable, file=target.key_file)
    except ConfigError as error:
        yield str(error)
    yield from access_problems(target, place, [mask_target_url(url)])


def _place_of_url(place: ConfigEntry) -> str:
    return place.describe(next(name for name in _PLACES_OF_URL if place.is_set(name)))


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_complete = parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_complete and url.isascii() and url.isprintable() and " " not in url


def _rule_problems(rule: RuleSettings, place: ConfigEntry, names: list[str]) -> Iterator[str]:
    if not names:
        yield f"{place.prefix.removesuffix('.')}: a rule needs at least one of autoscaler.notifications.targets"
        return
    for name in (name for name in rule.targets if name not in names):
        yield (
            f"{place.describe('targets')}: there is no target '{name}'; known:"
            f" {', '.join(names)}{closest_key(name, names)}"
        )
    known = tuple(_reasons())
    folded = {word.casefold() for word in known}
    for name in (name for name in rule.reasons if not _WILD & set(name) and name.casefold() not in folded):
        hint = "for one of a plug-in write a pattern such as 'Name*'"
        yield f"{place.describe('reasons')}: no event has the reason '{name}'{closest_key(name, known)}; {hint}"


def _reasons() -> Iterator[str]:
    for chapter in catalog_sections():
        if chapter.kind is EntryKind.EVENT:
            yield from (meaning.term for meaning in chapter.entries)
