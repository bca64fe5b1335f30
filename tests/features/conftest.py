"""Fixtures of tests of what users do and see, through several parts."""

from testkit.scenarios.runner.fixtures import *  # noqa: F403
