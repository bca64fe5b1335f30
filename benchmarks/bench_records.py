"""Recorded passes: their size, what writing and reading them costs, and what it costs not to record a pass.

Run: ``PYTHONPATH=benchmarks python benchmarks/bench_records.py [--seconds 1]``. Numbers of the window are random, as
measured ones are: what repeats itself compresses better than a cluster ever would.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from rich.console import Console
from rich.table import Table

from benchmarks.bench_core import CLUSTER, full_window, milliseconds
from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.recording import should_record, signature
from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.ports.passes import LastRecord, PassInputs
from flink_autoscaler.standalone.records.codec import PassRecord, decode, encode
from flink_autoscaler.standalone.records.replay import differences, replay_pass


def measured(state: JobState) -> JobState:
    """Return a state whose window has numbers with as many digits as measured ones."""
    chance = random.Random(1)

    def noisy(sample: MetricSample) -> MetricSample:
        def noise(metrics: Mapping[ScalingMetric, float]) -> dict[ScalingMetric, float]:
            return {metric: value * (1 + chance.random() / 1000) for metric, value in metrics.items()}

        vertices = {vertex_id: noise(metrics) for vertex_id, metrics in sample.vertices.items()}
        return replace(sample, vertices=vertices, globals_=noise(sample.globals_))

    return replace(state, samples=tuple(map(noisy, state.samples)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="time per figure")
    seconds = parser.parse_args().seconds
    titles = ("vertices", "samples", "characters", "write ms", "read ms", "replay ms", "pass ms", "not recording ms")
    table = Table(*titles)
    for vertices, samples in ((10, 16), (10, 91), (300, 91)):
        request, answer = full_window(vertices, samples)
        request = replace(request, state=measured(request.state))
        outcome = advance(request, answer, CLUSTER)
        record = PassRecord(request, replace(outcome, inputs=PassInputs(answer, CLUSTER)))
        text = encode(record)
        read = decode(text)
        assert list(differences(read, replay_pass(read))) == []
        known = replace(request, recorded=LastRecord(request.now_ms, signature(outcome)))
        whole = partial(advance, request, answer, CLUSTER)
        calls = (partial(encode, record), partial(decode, text), partial(replay_pass, read), whole)
        figures = [f"{milliseconds(call, seconds):.2f}" for call in calls]
        silent = milliseconds(partial(should_record, known, outcome), seconds)
        table.add_row(str(vertices), str(samples), f"{len(text):,}", *figures, f"{silent:.4f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
