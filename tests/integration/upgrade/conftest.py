"""The versions that upgrades are tried with, installed once."""

from upgrading.fixtures import *  # noqa: F403 - fixtures
