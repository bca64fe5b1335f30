"""Fixtures of tests of the daemon and its parts."""

from testkit.scenarios.watching.fixtures import *  # noqa: F403
