"""Talking to YARN: ResourceManagers, their applications, and where the JobManagers of those are."""

from flink_autoscaler.clients.yarn.applications import Application, ApplicationFilter, direct_url, proxy_url
from flink_autoscaler.clients.yarn.resource_manager import ResourceManagerClient

__all__ = ["Application", "ApplicationFilter", "ResourceManagerClient", "direct_url", "proxy_url"]
