"""The process that Spark's Python workers are forked from, with what a pass needs imported once for all of them.

Spark ends workers that had nothing to do for a minute; a new one would import for more than a second of processor
time. pyarrow is left to the workers: it starts threads when it is imported, which a fork does not copy.
"""

import gc
import importlib
import runpy
from typing import Final

PREPARED: Final = (
    "flink_autoscaler.clients.flink.client_cache",
    "flink_autoscaler.clients.flink.pass_plugins",
    "flink_autoscaler.pipeline.engine.run_pass",
    "pyspark.worker",
)

if __name__ == "__main__":
    for name in PREPARED:
        importlib.import_module(name)

    # What is shared with the workers is not collected, here or there.
    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__")
