"""Where targets are, by the settings alone; checks of settings ask it, and are not to import what sends."""

from __future__ import annotations

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.schema.notifications import TargetSettings
from flink_autoscaler.standalone.settings.secrets import from_either


def url_of(settings: TargetSettings, keys: str) -> str:
    """Return where a target is, read anew; ``keys`` stands before the names of options in messages.

    Raises:
        ConfigError: It is not where the settings say, or they do not say.
    """
    pointed = from_either(keys, "url", variable=settings.url_env_variable, file=settings.url_file)
    if (url := pointed or settings.url) is None:
        raise ConfigError(f"{keys}url is not set, nor is {keys}url-file or {keys}url-env-variable")
    return url
