"""The hosts that a ResourceManager vouches for: those of its NodeManagers and of its web proxy."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

from flink_autoscaler.clients.http.json_object import JsonObject
from flink_autoscaler.clients.yarn.capacity import JsonSource
from flink_autoscaler.core.border import awaited
from flink_autoscaler.core.errors import AutoscalerError, ResponseError

NODES_PATH: Final = "/ws/v1/cluster/nodes"
CONF_PATH: Final = "/conf"
_PROXY: Final = "yarn.web-proxy.address"


async def vouched_hosts(rm: JsonSource) -> frozenset[str]:
    """Return host names in lower case; those of the proxy only where the ResourceManager tells its configuration.

    Raises:
        FlinkRestError: It did not list its nodes.
    """
    nodes, conf = await asyncio.gather(
        rm.get_json(NODES_PATH), awaited(rm.get_json(CONF_PATH, params={"name": _PROXY}), ResponseError)
    )
    hosts = _node_hosts(nodes)
    if not isinstance(conf, AutoscalerError) and (proxy := _proxy_host(conf)):
        hosts.add(proxy)
    return frozenset(hosts)


def _node_hosts(answer: object) -> set[str]:
    nodes = JsonObject(answer, "the nodes").get("nodes")
    entries = nodes.get("node") if isinstance(nodes, dict) else None
    listed = entries if isinstance(entries, list) else [entries]
    hosts: set[str] = set()
    for entry in listed:
        if isinstance(entry, dict):
            hosts.add(_host(f"//{entry.get('nodeHTTPAddress')}"))
            hosts.add(_host(f"//{entry.get('nodeHostName')}"))
    return hosts - {"", "none"}


def _proxy_host(conf: object) -> str:
    found = conf.get("property") if isinstance(conf, dict) else None
    is_it = isinstance(found, dict) and found.get("key", found.get("name")) == _PROXY
    return _host(f"//{found.get('value')}") if is_it and isinstance(found, dict) else ""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
