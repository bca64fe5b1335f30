"""The versions that upgrades are tried with, installed once."""

from testkit.scenarios.upgrading.fixtures import *  # noqa: F403 - fixtures
