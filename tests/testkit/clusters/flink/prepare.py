"""``python -m testkit.clusters.flink.prepare 2.3``: put Flink's jars and the job's jar into the cache.

Standard library only.
"""

import sys

from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.job import build


def main(versions: list[str]) -> int:
    """Make the jars of these Flink versions ready; return 1 when something is missing, after telling what."""
    try:
        for version in versions:
            build(version)
    except HarnessError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
