"""A process that keeps a history on a disk that is full, and has space again later.

Argument: folder. The system refuses to write beyond a small size of any file, in the middle of a write, as a full disk
does. Prints a JSON object: whether rows were written while it was full and afterwards, and what was logged meanwhile.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from structlog.testing import capture_logs

from flink_autoscaler.standalone.history.sink import HistorySink
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings
from testkit.builders.history import NOON_MS
from testkit.contracts.recorded_passes import window_filling

SIZE = 2000
PASSES = 5


def main() -> None:
    """Add passes, and have them written twice while the disk is full and once when it is not."""
    settings = HistorySettings(enabled=True, path=str(Path(sys.argv[1])), interval=0.0, compaction_interval=0.0)
    record = window_filling().records[-1]
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE, most))
    with capture_logs() as logs:
        sink = HistorySink(settings)
        is_written = []
        for minute in range(PASSES):
            sink.add([record.outcome], [record.request.context], NOON_MS + minute * 60_000)
            is_written.append(sink.flush(30.0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        is_written.append(sink.flush(30.0))
        sink.close()
    told = [line["event"] for line in logs if line["log_level"] in {"warning", "info"}]
    json.dump({"is_written": is_written, "told": told, "rows": sink.status().rows_written}, sys.stdout)


if __name__ == "__main__":
    main()
