"""The daemon's identity to a cluster: headers, credentials and certificates, read from where the settings point to."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint, Kerberos, PrometheusSource, Tls
from flink_autoscaler.standalone.settings import secrets
from flink_autoscaler.standalone.settings.schema.clusters import (
    AccessSettings,
    BasicAuth,
    BearerAuth,
    ClusterSettings,
    KerberosAuth,
    SimpleAuth,
    TargetSettings,
    YarnSettings,
)

AUTHORIZATION: Final = "Authorization"
DELEGATION_TOKEN: Final = "Hadoop-YARN-RM-Delegation-Token"  # noqa: S105 - the name of a header

Headers = tuple[tuple[str, str], ...]


class Access:
    """Puts credentials into endpoints. Called once per pass, so that what was replaced counts in the next one.

    Args:
        settings: Of the cluster, or of its ResourceManagers.
        keys: Put before the names of options in messages, such as ``cluster 'x': ``.
    """

    def __init__(self, settings: AccessSettings, keys: str) -> None:
        self._settings = settings
        self._keys = keys

    def secured(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint with everything that proves who the daemon is; an equal one if nothing was replaced.

        Files and environment variables are read now, so this is not for an event loop.

        Raises:
            ConfigError: A secret is not where the settings say; the message names the key, never a secret.
        """
        auth = self._settings.auth
        return replace(
            endpoint,
            headers=(*endpoint.headers, *self._headers()),
            tls=self.tls(),
            kerberos=self._kerberos(),
            user_name=auth.username if isinstance(auth, SimpleAuth) else None,
        )

    def tls(self) -> Tls:
        """Return certificates and keys, with another version whenever a file was replaced. May raise ConfigError."""
        tls = self._settings.tls
        return Tls(
            ca_file=tls.ca_file,
            certificate_file=tls.certificate_file,
            key_file=tls.key_file,
            key_password=secrets.from_either(
                self._keys, "tls.key-password", variable=tls.key_password_env_variable, file=tls.key_password_file
            ),
            verify_host=tls.verify_host,
            version=" ".join(map(_version, filter(None, (tls.ca_file, tls.certificate_file, tls.key_file)))),
        )

    def _headers(self) -> Headers:
        settings = self._settings
        env, files = settings.headers_env.items(), settings.headers_file.items()
        return (
            *settings.headers.items(),
            *((name, secrets.from_variable(f"{self._keys}headers-env.{name}", variable)) for name, variable in env),
            *((name, secrets.from_file(f"{self._keys}headers-file.{name}", file)) for name, file in files),
            *self._authorization(),
            *self._delegation_token(),
        )

    def _authorization(self) -> Headers:
        match self._settings.auth:
            case BasicAuth() as auth:
                password = self._required("auth.password", auth.password_env_variable, auth.password_file)
                pair = f"{auth.username or ''}:{password}".encode()
                return ((AUTHORIZATION, "Basic " + base64.b64encode(pair).decode("ascii")),)
            case BearerAuth() as auth:
                token = self._required("auth.token", auth.token_env_variable, auth.token_file)
                return ((AUTHORIZATION, f"Bearer {token}"),)
        return ()

    def _delegation_token(self) -> Headers:
        settings = self._settings
        if not isinstance(settings, YarnSettings):
            return ()
        token = secrets.from_either(
            self._keys,
            "delegation-token",
            variable=settings.delegation_token_env_variable,
            file=settings.delegation_token_file,
        )
        return () if token is None else ((DELEGATION_TOKEN, token),)

    def _required(self, name: str, variable: str | None, file: str | None) -> str:
        text = secrets.from_either(self._keys, name, variable=variable, file=file)
        if text is None:
            raise ConfigError(f"{self._keys}{name}-file or {name}-env-variable is not set")
        return text

    def _kerberos(self) -> Kerberos | None:
        auth = self._settings.auth
        if not isinstance(auth, KerberosAuth):
            return None
        return Kerberos(principal=auth.principal, keytab=auth.keytab, host=auth.service_host)


def target_url(settings: TargetSettings, keys: str) -> str:
    """Return the URL of a target of notifications, read anew; ``keys`` stands before the names of options in messages.

    Raises:
        ConfigError: It is not where the settings say, or they do not say.
    """
    pointed = secrets.from_either(keys, "url", variable=settings.url_env_variable, file=settings.url_file)
    if (url := pointed or settings.url) is None:
        raise ConfigError(f"{keys}url is not set, nor is {keys}url-file or {keys}url-env-variable")
    return url


def _version(file: str) -> str:
    """Return a text that changes when a file is replaced. That it is missing is said by who reads it."""
    try:
        status = Path(file).stat()
    except OSError:
        return "missing"
    return f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}"


MOST_CONNECTIONS: Final = 4
"""Queries under way at the same time: each takes the server as much work as many of a dashboard."""

_REPLICA_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "reporter": ("prometheus_replica", "replica"),
    "kubernetes-operator": ("prometheus_replica", "prometheus"),
    "pushgateway": ("prometheus_replica", "replica"),
}


class MetricAccess:
    """Puts into endpoints where the metrics of their jobs are. Called once per pass, as :class:`Access` is.

    Args:
        settings: Of the cluster.
        keys: Put before the names of options in messages, such as ``cluster 'x': ``.
    """

    def __init__(self, settings: ClusterSettings, keys: str) -> None:
        self._settings = settings.metrics
        self._access = Access(settings.metrics.prometheus, f"{keys}metrics.prometheus.")

    def sourced(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint with its source of metrics; an equal one if nothing was replaced.

        Raises:
            ConfigError: A secret is not where the settings say.
        """
        if self._settings.source == "rest":
            return endpoint
        settings = self._settings.prometheus
        server = Endpoint(
            settings.url[0],
            timeout=settings.timeout,
            max_connections=MOST_CONNECTIONS,
            max_response_bytes=settings.max_response_bytes,
        )
        replicas = settings.replica_labels
        source = PrometheusSource(
            self._access.secured(server),
            max_age=settings.max_age,
            selector=tuple(sorted(settings.selector.items())),
            names=tuple(sorted(settings.names.items())),
            labels=tuple(sorted(settings.labels.items())),
            replica_labels=_REPLICA_LABELS[settings.preset] if replicas is None else replicas,
            is_pushed=settings.preset == "pushgateway",
        )
        return replace(endpoint, prometheus=source)
