"""``python -m installing demo --flink 2.3``: see :mod:`installing.command`."""

import sys

if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036  -- somebody may start it with another Python than the Makefile
        sys.exit("missing: Python 3.11 or later\n         on Debian: apt-get install -y python3 python3-venv")
    from installing.command import main  # needs the Python that was just looked for

    sys.exit(main(sys.argv[1:]))
