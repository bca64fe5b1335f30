"""The arguments of the scaling job."""

from testkit.clusters.flink.job import ScalingJob


def test_arguments_are_pairs_of_option_and_value() -> None:
    arguments = ScalingJob(curve="0:5", start_ms=1000, partition_metrics=True).arguments()

    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert options["--curve"] == "0:5"
    assert options["--start-ms"] == "1000"
    assert options["--partition-metrics"] == "true"
    assert options["--cost-micros"] == "1000"
