"""``flink-autoscaler``, also as ``python -m flink_autoscaler.standalone``."""

from __future__ import annotations

from flink_autoscaler.standalone.cli.main import main

if __name__ == "__main__":
    main()
