"""A real Kerberos realm and a real SPNEGO-protected server for tests, on free loopback ports.

``kerberos.fixtures`` has the pytest fixtures: ``realm`` is a running MIT KDC whose files this process uses for the time
of the test, ``guarded_flink`` a fake JobManager behind Apache httpd that lets in only who shows a ticket.
"""

from kerberos.httpd import GuardedServer
from kerberos.kdc import REALM, Identity, Realm
from kerberos.programs import MissingProgramError
from kerberos.silence import SilentPort

__all__ = ["REALM", "GuardedServer", "Identity", "MissingProgramError", "Realm", "SilentPort"]
