"""Options of a reader, as text, checked before anything is read."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import urlsplit

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint, Kerberos, Tls
from flink_autoscaler.pipeline.data_source.tables import JOBS, TABLES

SECRET_CLUSTERS: Final = "secret_clusters"  # noqa: S105 - the name of an option
"""Clusters with their credentials; Spark hides the values of options whose names contain ``secret`` or ``token``."""

OPTIONS: Final = {
    "table": "`jobs`, `vertices` or `metrics`; `jobs` unless given.",
    "url": "REST URLs of JobManagers, separated by commas; `name=url` names the cluster.",
    "token": "Sent to all of them as a bearer token.",
    SECRET_CLUSTERS: "Clusters with their credentials, as `metrics_options` or `endpoint_options` makes it.",
    "cluster": "Names of clusters, separated by commas; the others are not asked.",
    "job": "Names or ids of jobs, separated by commas; the others are left out.",
    "metric": "Ids of metrics, separated by commas, for the table `metrics`; all of them unless given.",
    "timeout": "Seconds that a request may take; 10 unless given.",
    "partitions": "Tasks per cluster that share its jobs; 1 unless given.",
    "unreachable": "`fail` (unless given) ends the query when a cluster does not answer, `skip` leaves its rows out.",
    "pushdown": "`true` hands conditions on cluster, job_id, job_name and metric to the source, so that less is asked; "
    "needs `spark.sql.python.filterPushdown.enabled`.",
}
"""Every option with its meaning."""


@dataclass(frozen=True)
class Choices:
    """Options of one read.

    Attributes:
        clusters: Endpoints by name.
        jobs: Names or ids; empty takes all.
        metrics: Ids; empty takes all.
    """

    table: str = JOBS.name
    clusters: Mapping[str, Endpoint] = field(default_factory=dict, repr=False)
    jobs: frozenset[str] = frozenset()
    metrics: frozenset[str] = frozenset()
    partitions: int = 1
    skips_unreachable: bool = False
    pushes_down: bool = False


def choices_of(options: Mapping[str, str]) -> Choices:
    """Return what options ask for; their names may be written in any case.

    Raises:
        ConfigError: One of them cannot be used; the message never has a secret in it.
    """
    given = {key.lower(): value for key, value in options.items()}
    for key in given.keys() - OPTIONS.keys():
        raise ConfigError(f"flink_metrics: unknown option {key!r}{_nearest(key, OPTIONS)}")
    return Choices(
        table=_one_of(given, "table", TABLES),
        clusters=_clusters(given),
        jobs=frozenset(_texts(given, "job")),
        metrics=frozenset(_texts(given, "metric")),
        partitions=int(_number(given, "partitions", 1, least=1)),
        skips_unreachable=_one_of(given, "unreachable", ("fail", "skip")) == "skip",
        pushes_down=_one_of(given, "pushdown", ("false", "true")) == "true",
    )


def endpoint_options(clusters: Mapping[str, Endpoint]) -> dict[str, str]:
    """Return the option that tells where clusters are and who the reader is to them.

    Args:
        clusters: Endpoints by the name that the column ``cluster`` shows.
    """
    return {SECRET_CLUSTERS: json.dumps({name: asdict(endpoint) for name, endpoint in clusters.items()})}


def _clusters(given: Mapping[str, str]) -> dict[str, Endpoint]:
    clusters = {**_described(given.get(SECRET_CLUSTERS, "{}")), **_addressed(given)}
    if not clusters:
        raise ConfigError("flink_metrics: the option 'url' is missing, such as http://jobmanager:8081")
    wanted = _texts(given, "cluster")
    for name in wanted:
        if name not in clusters:
            raise ConfigError(f"flink_metrics: there is no cluster {name!r}{_nearest(name, clusters)}")
    return {name: endpoint for name, endpoint in clusters.items() if name in wanted or not wanted}


def _described(text: str) -> dict[str, Endpoint]:
    try:
        return {name: _endpoint(fields) for name, fields in json.loads(text).items()}
    except (TypeError, ValueError, KeyError, AttributeError):
        # The error quotes the text, which holds secrets.
        raise ConfigError(f"flink_metrics: the option {SECRET_CLUSTERS!r} is not what metrics_options makes") from None


def _endpoint(fields: dict[str, Any]) -> Endpoint:
    kerberos = fields["kerberos"]
    return Endpoint(
        **fields
        | {
            "headers": tuple((name, value) for name, value in fields["headers"]),
            "tls": Tls(**fields["tls"]),
            "kerberos": None if kerberos is None else Kerberos(**kerberos),
        }
    )


def _addressed(given: Mapping[str, str]) -> dict[str, Endpoint]:
    headers = (("Authorization", f"Bearer {given['token']}"),) if given.get("token") else ()
    basis = Endpoint("", timeout=_number(given, "timeout", 10.0), headers=headers)
    parts = [
        text.partition("=") if "://" in text.partition("=")[2] else ("", "", text) for text in _texts(given, "url")
    ]
    return {name or _checked(url): replace(basis, url=_checked(url)) for name, _, url in parts}


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"flink_metrics: {url.rpartition('@')[2]!r} is no URL such as http://jobmanager:8081")
    if "@" in parts.netloc:
        raise ConfigError("flink_metrics: a URL must not contain user name and password; use the option 'token'")
    return url.rstrip("/")


def _texts(given: Mapping[str, str], key: str) -> list[str]:
    return [text.strip() for text in given.get(key, "").split(",") if text.strip()]


def _number(given: Mapping[str, str], key: str, default: float, *, least: float = 0.001) -> float:
    try:
        number = float(given.get(key, default))
    except ValueError:
        number = least - 1
    if not least <= number < float("inf"):
        raise ConfigError(f"flink_metrics: the option {key!r} has to be a number of at least {least:g}")
    return number


def _one_of(given: Mapping[str, str], key: str, allowed: Collection[str]) -> str:
    value = given.get(key, next(iter(allowed))).lower()
    if value not in allowed:
        raise ConfigError(f"flink_metrics: {key!r} is one of {', '.join(allowed)}, not {value!r}")
    return value


def _nearest(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, list(known), 1)
    return f", did you mean {near[0]!r}?" if near else f"; there are: {', '.join(sorted(known))}"
