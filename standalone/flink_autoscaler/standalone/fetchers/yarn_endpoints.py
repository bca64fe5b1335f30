"""Endpoints of ResourceManagers and of the JobManagers of their applications, with credentials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from flink_autoscaler.clients.yarn import Application, direct_url, proxy_url
from flink_autoscaler.clients.yarn.addresses import origin
from flink_autoscaler.core.errors import AutoscalerError, NotReadyError, ResponseError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.standalone.fetchers.access import DELEGATION_TOKEN, Access
from flink_autoscaler.standalone.settings.schema.clusters import JobManagerAccess
from flink_autoscaler.standalone.settings.schema.settings import Cluster

_HTTPS: Final = "https"


@dataclass(frozen=True, slots=True)
class Ways:
    """On which ways the JobManager of an application may be reached; at least one.

    Attributes:
        direct: To the node that it runs on, to be tried in this order; empty where that is not wanted or not known.
        proxy: Through YARN's web proxy; None where that is not wanted or there is none.
    """

    direct: tuple[Endpoint, ...] = ()
    proxy: Endpoint | None = None

    def __iter__(self) -> Iterator[Endpoint]:
        """Give every way once."""
        yield from self.direct
        if self.proxy is not None:
            yield self.proxy


class YarnEndpoints:
    """Makes the endpoints of one pass. Credentials are read by :meth:`renew`, not on an event loop.

    There are two sets of credentials. Those of the cluster entry are for JobManagers, and go to whatever address an
    ApplicationMaster has registered: whoever may start applications that are looked after gets to see them. Those
    below ``yarn`` are for ResourceManagers, and for the web proxy that they name in the tracking URLs of applications
    that they manage; never unencrypted to a proxy while the ResourceManagers are asked over https. A delegation token
    goes to the configured ResourceManagers alone.

    Args:
        cluster: Whose settings hold.

    Attributes:
        resource_managers: One endpoint each, in the configured order.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._settings = cluster.settings.yarn
        self._plain = replace(cluster.endpoint, url="")
        self._access = Access(cluster.settings, f"cluster '{cluster.name}': ")
        self._yarn_access = Access(self._settings, f"cluster '{cluster.name}': yarn.")
        # Over http anybody on the way could read what is meant to be encrypted.
        self._schemes = (_HTTPS,) if cluster.settings.tls.model_fields_set else ("http", _HTTPS)
        self._origins = [origin(url) for url in self._settings.url]
        self._jobmanager = self._resource_manager = self._plain
        self.resource_managers: tuple[Endpoint, ...] = ()

    def renew(self) -> None:
        """Read credentials from where the settings say.

        Raises:
            ConfigError: One of them is not there.
        """
        self._jobmanager = self._access.secured(self._plain)
        self._resource_manager = self._yarn_access.secured(self._plain)
        self.resource_managers = tuple(replace(self._resource_manager, url=url) for url in self._settings.url)

    def ways(self, application: Application) -> Ways:
        """Return on which ways an application may be reached.

        Raises:
            NotReadyError: Its ApplicationMaster has not registered yet.
            ResponseError: It has, but the ResourceManager does not tell what the configured way needs.
        """
        access = self._settings.access
        urls = [url for scheme in self._schemes if (url := direct_url(application, scheme)) is not None]
        direct = () if access is JobManagerAccess.PROXY else tuple(replace(self._jobmanager, url=url) for url in urls)
        proxy = None
        if access is not JobManagerAccess.DIRECT and (url := proxy_url(application)) is not None:
            proxy = replace(self._proxied(url), put_url=next(iter(urls), None))
        if not direct and proxy is None:
            raise _no_way(application, access)
        return Ways(direct, proxy)

    def _proxied(self, url: str) -> Endpoint:
        scheme, host, _ = there = origin(url)
        endpoint = replace(self._resource_manager, url=url, approves_proxy=self._settings.approve_proxy)
        if there not in self._origins:
            kept = tuple((name, value) for name, value in endpoint.headers if name != DELEGATION_TOKEN)
            is_downgrade = scheme != _HTTPS and all(known[0] == _HTTPS for known in self._origins)
            endpoint = replace(endpoint, headers=() if is_downgrade else kept)
        if endpoint.kerberos is not None and host not in {known[1] for known in self._origins}:
            endpoint = replace(endpoint, kerberos=replace(endpoint.kerberos, host=None))
        return endpoint


def _no_way(application: Application, access: JobManagerAccess) -> AutoscalerError:
    has_registered = application.am_rpc_address or application.tracking_url
    if not has_registered:
        return NotReadyError("its ApplicationMaster has not registered with YARN yet")
    if access is JobManagerAccess.DIRECT:
        return ResponseError(
            f"the ResourceManager shows no address of its JobManager ({application.am_rpc_address!r:.80}): either the "
            "daemon may not view the application, or needs access: auto or proxy"
        )
    if application.is_unmanaged:
        return ResponseError("its ApplicationMaster runs outside YARN and can only be reached directly")
    return ResponseError(f"its tracking URL {application.tracking_url!r:.200} is not one of YARN's web proxy")
