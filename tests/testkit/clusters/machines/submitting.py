"""``python -m testkit.clusters.machines.submitting URL CURVE``: submit the test job from inside of a network."""

import sys

from testkit.clusters.flink.job import ENTRY_CLASS, ScalingJob, build
from testkit.clusters.flink.rest import FlinkRest


def main(url: str, curve: str) -> None:
    """Submit the job and print its id."""
    rest = FlinkRest(url)
    arguments = ScalingJob(curve=curve, cost_micros=2000).arguments()
    print(rest.run(rest.upload(build("2.3")), {"entryClass": ENTRY_CLASS, "programArgsList": arguments}))


if __name__ == "__main__":
    main(*sys.argv[1:])
