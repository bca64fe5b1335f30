"""``python -m demo``: run the demo, tell the verdict, leave nothing running."""

import importlib.util
import sys

NEEDED = ("rich", "httpx", "yaml", "pyspark", "flink_autoscaler")

if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036  -- somebody may start it with another Python than that of .venv
        sys.exit("missing: Python 3.11 or later\n         on Debian: apt-get install -y python3 python3-venv")
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        sys.exit(f"missing: the Python packages {', '.join(absent)}\n         make setup")
    # Imported here: it needs the packages that were just looked for.
    from demo.command import main

    sys.exit(main())
