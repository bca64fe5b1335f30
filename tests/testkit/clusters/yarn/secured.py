"""Properties of a YARN whose web services want to know who asks, and show others' applications to few."""

from pathlib import Path

from testkit.clusters.yarn.configuration import QUEUES

ADMIN = "yarn-admin"

# By default everybody may administer, and thereby view, the applications of every queue.
PRIVATE_QUEUES = {**QUEUES, "root.acl_administer_queue": " ", "root.acl_submit_applications": "*"}


def simple_authentication(secret_file: Path) -> dict[str, str]:
    """Return the properties for Hadoop's simple authentication without anonymous callers.

    Args:
        secret_file: Where the key of the cookies is kept; written here.
    """
    secret_file.write_text("a key for tests only")
    prefix = "hadoop.http.authentication"
    return {
        "hadoop.http.filter.initializers": "org.apache.hadoop.security.AuthenticationFilterInitializer",
        f"{prefix}.type": "simple",
        f"{prefix}.simple.anonymous.allowed": "false",
        f"{prefix}.signature.secret.file": str(secret_file),
        "yarn.acl.enable": "true",
        "yarn.admin.acl": ADMIN,
    }
