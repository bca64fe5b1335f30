"""``python -m machines.submitting URL CURVE``: submit the test job to a cluster, from inside of its network."""

import sys

from flink_cluster.job import ENTRY_CLASS, ScalingJob, build
from flink_cluster.rest import FlinkRest


def main(url: str, curve: str) -> None:
    """Submit the job and print its id."""
    rest = FlinkRest(url)
    arguments = ScalingJob(curve=curve, cost_micros=2000).arguments()
    print(rest.run(rest.upload(build("2.3")), {"entryClass": ENTRY_CLASS, "programArgsList": arguments}))


if __name__ == "__main__":
    main(*sys.argv[1:])
