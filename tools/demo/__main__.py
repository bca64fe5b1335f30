"""``python -m demo``: run the demo, tell the verdict, leave nothing running."""

import sys

from demo.command import main

if __name__ == "__main__":
    sys.exit(main())
