"""``python -m testkit.scenarios.agreement FOLDER``: compare a run that was recorded."""

from __future__ import annotations

import sys
from pathlib import Path

from testkit.scenarios.agreement.recording import load
from testkit.scenarios.agreement.report import reported

if __name__ == "__main__":
    sys.stdout.write(reported(load(Path(sys.argv[1]))).text)
