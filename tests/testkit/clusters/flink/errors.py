"""Errors raised by the harness."""


class HarnessError(Exception):
    """The harness could not do what was asked; the message says what is missing."""


class PortTakenError(HarnessError):
    """Another process took a port between choosing and binding it."""
