"""Certificates made for a test, and a server that speaks TLS with them.

``Authority(directory)`` issues certificates as PEM files; ``TlsFront(port, context)`` puts TLS before a plain server.
"""

from testkit.servers.tls.authority import Authority, Identity, encrypted
from testkit.servers.tls.front import TlsFront, server_context

__all__ = ["Authority", "Identity", "TlsFront", "encrypted", "server_context"]
