"""``python -m flink_cluster.prepare 2.3``: put Flink's jars and the job's jar into the cache; standard library only."""

import sys

from flink_cluster.errors import HarnessError
from flink_cluster.job import build


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
