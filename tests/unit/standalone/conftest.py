"""Fixtures of tests of the daemon and its parts."""

from testkit.scenarios.runner.fixtures import *  # noqa: F403
