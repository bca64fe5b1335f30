"""A real Kerberos realm and a real SPNEGO-protected server for tests, on free loopback ports.

``testkit.servers.kerberos.fixtures`` has the pytest fixtures: ``realm`` is a running MIT KDC whose files this process
uses for the time of the test, ``guarded_flink`` a fake JobManager behind Apache httpd that lets in only who shows a
ticket.
"""

from testkit.servers.kerberos.httpd import GuardedServer
from testkit.servers.kerberos.kdc import REALM, Identity, Realm
from testkit.servers.kerberos.programs import MissingProgramError
from testkit.servers.kerberos.silence import SilentPort

__all__ = ["REALM", "GuardedServer", "Identity", "MissingProgramError", "Realm", "SilentPort"]
