from __future__ import annotations

import pytest

from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.pipeline.spark.codec import decode
from flink_autoscaler.pipeline.spark.task import PartitionPlan

BIG, SMALL = Endpoint("http://big"), Endpoint("http://small")


def a_deal(max_tasks: int = 4, **jobs: int) -> PartitionPlan:
    places = iter(range(sum(jobs.values())))
    clusters = {Endpoint(f"http://{name}"): [(next(places), b"x") for _ in range(n)] for name, n in jobs.items()}
    return PartitionPlan.of(clusters, max_tasks)


@pytest.mark.parametrize(
    ("jobs", "max_tasks", "expected"),
    [
        pytest.param({"a": 1}, 4, [1], id="one job: one task"),
        pytest.param({"a": 16}, 4, [16], id="too few for a second task"),
        pytest.param({"a": 64}, 4, [64], id="a cluster that is not cut"),
        pytest.param({"a": 65}, 4, [17, 17, 17, 14], id="a cluster that is"),
        pytest.param({"a": 100}, 2, [50, 50], id="no more tasks than allowed"),
        pytest.param({"a": 30, "b": 30, "c": 40}, 2, [30, 70], id="whole clusters, rather than equal pieces"),
        pytest.param({f"c{n}": 1 for n in range(33)}, 4, [11, 11, 11], id="many clusters of one job"),
    ],
)
def test_jobs_are_dealt_out_evenly(jobs: dict[str, int], max_tasks: int, expected: list[int]) -> None:
    assert [len(piece) for piece in a_deal(max_tasks, **jobs).pieces] == expected


def test_only_clusters_of_several_tasks_are_divided() -> None:
    deal = a_deal(big=120, small=4)

    assert deal.divided() == [BIG]


def test_tasks_that_share_a_cluster_share_its_connections() -> None:
    deal = a_deal(big=120, small=4)

    shares = {endpoint.url: endpoint.max_connections for endpoint, _ in decode(deal.clusters({}), tuple)}

    assert shares == {"http://big": 4, "http://small": 16}


def test_readings_go_with_their_clusters() -> None:
    reading = ClusterReading(jobmanager={"a": "1"})

    clusters = decode(a_deal(big=120, small=4).clusters({BIG: reading}), tuple)

    assert [each for _, each in clusters] == [reading, None]
