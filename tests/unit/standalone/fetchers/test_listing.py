from __future__ import annotations

import pytest

from flink_autoscaler.core.errors import AutoscalerError, ConnectError, PluginError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.fetchers.listing import list_jobs
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster


class Fetcher:
    """Gives a list, or raises."""

    def __init__(self, outcome: JobList | Exception) -> None:
        self.outcome = outcome
        self.is_closed = False

    def fetch(self) -> JobList:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def close(self) -> None:
        self.is_closed = True


def a_cluster(name: str) -> Cluster:
    return Cluster(name, Endpoint("http://x"), 10.0, EngineKind.INLINE, {}, ClusterSettings(name=name))


def test_clusters_come_in_their_order_and_fetchers_are_closed() -> None:
    lists = {name: JobList((), left_out=frozenset({name})) for name in ("c", "a", "b")}
    fetchers = {name: Fetcher(jobs) for name, jobs in lists.items()}

    found = list(list_jobs([a_cluster(name) for name in lists], lambda cluster: fetchers[cluster.name]))

    assert [(cluster.name, jobs) for cluster, jobs in found] == list(lists.items())
    assert all(fetcher.is_closed for fetcher in fetchers.values())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(ConnectError("gone"), ConnectError, id="an error of ours"),
        pytest.param(ValueError("oops"), PluginError, id="an error of somebody else's fetcher"),
    ],
)
def test_a_cluster_that_cannot_be_listed_harms_no_other(error: Exception, kind: type[AutoscalerError]) -> None:
    fetchers = {"bad": Fetcher(error), "good": Fetcher(JobList((), left_out=frozenset({"x"})))}

    bad, good = (jobs for _, jobs in list_jobs([a_cluster("bad"), a_cluster("good")], lambda c: fetchers[c.name]))

    assert isinstance(bad.problems["cluster bad"], kind)
    assert str(error) in str(bad.problems["cluster bad"])
    assert good.left_out == {"x"}
    assert fetchers["bad"].is_closed
